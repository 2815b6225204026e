package facts

import (
	"context"
	"testing"
	"time"
)

func TestWithGrace(t *testing.T) {
	t.Parallel()
	within, cancel := withGrace(context.Background())
	defer cancel()
	if end, ok := within.Deadline(); ok {
		t.Errorf("a deadline was added: %v", end)
	}
	for after, most := range map[time.Duration]time.Duration{time.Hour: grace, grace: grace / 8, -time.Hour: 0} {
		end := time.Now().Add(after)
		ctx, cancelOuter := context.WithDeadline(context.Background(), end)
		defer cancelOuter()
		within, cancel := withGrace(ctx)
		defer cancel()
		got, ok := within.Deadline()
		if early := end.Sub(got); !ok || early > most || after == time.Hour && early != grace {
			t.Errorf("%v ahead: sources end %v earlier, want at most %v", after, early, most)
		}
	}
}
