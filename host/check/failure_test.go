package check

import (
	"errors"
	"strings"
	"testing"

	"assay/host/entity"
)

func TestFailureIsRedacted(t *testing.T) {
	t.Parallel()
	e, err := entity.Parse(entity.Email, "Jane.Roe+shop@Example.com", "")
	if err != nil {
		t.Fatal(err)
	}
	failure := &Failure{Reason: Trap, Err: errors.New(`no code "x:y:jane.roe@example.com"`),
		Output: "scoring Jane.Roe+shop@example.com\njane.roe at example.com, tag shop"}
	got := failure.redacted(Input{Entity: e.Facts})
	for _, raw := range []string{"jane", "example", "shop"} {
		if text := strings.ToLower(got.Error() + got.Output); strings.Contains(text, raw) {
			t.Errorf("%q is still in %q and %q", raw, got.Error(), got.Output)
		}
	}
	if got.Reason != Trap {
		t.Errorf("reason %q", got.Reason)
	}
}
