package operation

import (
	"context"
	"errors"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"assay/host/hosttest"
	"assay/host/lineup/fleet"
	"assay/registry"
	"assay/registry/expect"
)

// A lineup is in force on every live host, or on none: one that refuses is named, and one that was killed is skipped by
// name. TestActivationsUnderLoad changes it while hosts answer checks.
func TestLineupOnTwoHosts(t *testing.T) {
	t.Parallel()
	f := hosttest.NewFleet(t, 2)
	first := hosttest.OutputJSON[registry.LineupRevision](t, f.Dir, f.Database, "lineup", "show").Lineup
	heavier := hosttest.WriteJSON(t, hosttest.Variant(first, hosttest.WeightOf(first, "iban")+0.5))

	// A host that refuses, next to the two that are ready.
	ctx, leave := context.WithCancel(t.Context())
	var refusing sync.WaitGroup
	refusing.Go(func() {
		for ctx.Err() == nil {
			err := f.Backend.Store.BeatHost(ctx, "host_d", "d:1", fleet.State{Activation: 1, Revision: 1})
			open, failed := f.Backend.Store.Candidates(ctx)
			for _, c := range open {
				failed = errors.Join(failed, f.Backend.Store.Answer(ctx, fleet.Answer{Candidate: c.ID, Host: "host_d",
					Progress: fleet.Refused, Reason: "no memory left"}))
			}
			if err := errors.Join(err, failed); err != nil && ctx.Err() == nil {
				t.Error(err)
			}
			select {
			case <-ctx.Done():
			case <-time.After(20 * time.Millisecond):
			}
		}
	})
	out, err := hosttest.Command(t.Context(), f.Dir, f.Database, "lineup", "set", heavier).CombinedOutput()
	if err == nil || strings.Contains(string(out), "is in force on") ||
		!strings.Contains(string(out), "nothing was changed, revision 1 stays in force: host d:1 refused: no memory") {
		t.Errorf("setting a lineup that one host refuses: %v\n%s", err, out)
	}
	leave()
	refusing.Wait()
	expect.NoError(t, f.Backend.Store.RemoveHost(t.Context(), "host_d"))
	if n := len(f.Running(t, 1)); n != 2 {
		t.Errorf("afterwards %d hosts run revision 1, want 2", n)
	}

	// Without it, all switch before the command returns.
	text := hosttest.Output(t, f.Dir, f.Database, "lineup", "set", heavier)
	if strings.Count(text, ": ready") != 2 || strings.Count(text, ": switched") != 2 ||
		!strings.Contains(text, "Revision 2 is in force on 2 hosts.") {
		t.Errorf("lineup set printed\n%s", text)
	}
	if n := len(f.Running(t, 2)); n != 2 {
		t.Errorf("%d hosts run revision 2, want 2", n)
	}

	// One is killed.
	killed := f.Hosts[1]
	killed.Stop(t, syscall.SIGKILL)
	f.Silence(t, killed)
	text = hosttest.Output(t, f.Dir, f.Database, "lineup", "rollback", "--reason", "a test")
	_, skipped, found := strings.Cut(text, "Skipped, because silent: ")
	if strings.Count(text, ": switched") != 1 || !strings.Contains(text, "Revision 1 is in force on ") || !found ||
		!strings.Contains(skipped, ":"+killed.Name()) {
		t.Errorf("lineup rollback printed\n%s", text)
	}
	text = hosttest.Output(t, f.Dir, f.Database, "lineup", "set", heavier)
	if strings.Count(text, ": switched") != 1 || !strings.Contains(text, ":"+killed.Name()+": skipped") {
		t.Errorf("lineup set printed\n%s", text)
	}
	hosts := hosttest.OutputJSON[[]fleet.Host](t, f.Dir, f.Database, "lineup", "hosts")
	if len(hosts) != 2 || len(fleet.Silent(hosts)) != 1 {
		t.Errorf("lineup hosts: %+v", hosts)
	}
}
