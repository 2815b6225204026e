package operation

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"assay/host/hosttest"
	"assay/host/lineup/fleet"
	"assay/host/store/storetest"
	"assay/registry"
	"assay/registry/expect"
)

// A lineup is in force on every live host, or on none: one that refuses is named, one that is stopped or was killed is
// skipped by name, and no check is recorded under a lineup that was replaced, by a host that was stopped meanwhile
// neither.
func TestLineupOnThreeHosts(t *testing.T) {
	t.Parallel()
	f := hosttest.NewFleet(t, 3)
	first := hosttest.OutputJSON[registry.LineupRevision](t, f.Dir, f.Database, "lineup", "show").Lineup
	heavier := hosttest.WriteJSON(t, hosttest.Variant(first, hosttest.WeightOf(first, "iban")+0.5))

	// A host that refuses, next to the three that are ready.
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
	if n := len(f.Running(t, 1)); n != 3 {
		t.Errorf("afterwards %d hosts run revision 1, want 3", n)
	}

	// Without it, all switch before the command returns.
	text := hosttest.Output(t, f.Dir, f.Database, "lineup", "set", heavier)
	if strings.Count(text, ": ready") != 3 || strings.Count(text, ": switched") != 3 ||
		!strings.Contains(text, "Revision 2 is in force on 3 hosts.") {
		t.Errorf("lineup set printed\n%s", text)
	}
	if n := len(f.Running(t, 2)); n != 3 {
		t.Errorf("%d hosts run revision 2, want 3", n)
	}

	// One host is stopped with checks in progress, and skipped.
	stopped := f.Hosts[2]
	var load sync.WaitGroup
	end := make(chan struct{})
	for range 4 {
		load.Go(func() {
			for {
				select {
				case <-end:
					return
				default:
				}
				if a := hosttest.PostOnce(http.DefaultClient, stopped.URL, f.Key,
					hosttest.FleetBody); a.Status != http.StatusOK &&
					a.Status != http.StatusServiceUnavailable && (a.Status != 500 || a.Ref == "") { // unknown outcome
					t.Errorf("a check was answered with %+v", a)
				}
			}
		})
	}
	expect.Until(t, "checks of the host", func() bool {
		return storetest.Value[int](t, f.Conn, "SELECT count(*) FROM audit_records WHERE kind = 'check'") > 20
	})
	expect.NoError(t, stopped.Cmd.Process.Signal(syscall.SIGSTOP))
	f.Silence(t, stopped)
	text = hosttest.Output(t, f.Dir, f.Database, "lineup", "rollback", "--reason", "a test")
	if strings.Count(text, ": switched") != 2 || !strings.Contains(text, "Revision 1 is in force on 2 hosts.") ||
		!strings.Contains(text, "Skipped, because silent: ") ||
		!strings.Contains(text[strings.Index(text, "Skipped"):], ":"+stopped.Name()) {
		t.Errorf("lineup rollback printed\n%s", text)
	}
	_, err = f.Conn.Exec(t.Context(), "UPDATE revisions_in_force SET until = until - interval '3 seconds'")
	if err != nil {
		t.Fatal(err)
	}
	replaced := storetest.Value[int64](t, f.Conn, "SELECT max(seq) FROM audit_records")
	expect.NoError(t, stopped.Cmd.Process.Signal(syscall.SIGCONT))
	expect.Until(t, "its checks", func() bool {
		return storetest.Value[int](t, f.Conn, "SELECT count(*) FROM audit_records WHERE kind = 'check' AND seq > $1",
			replaced) > 20
	})
	close(end)
	load.Wait()
	expect.Equal(t, "checks under the replaced lineup", storetest.Value[int](t, f.Conn,
		"SELECT count(*) FROM audit_records WHERE kind = 'check' AND seq > $1 AND revision = 2", replaced), 0)

	// One is killed.
	killed := f.Hosts[1]
	killed.Stop(t, syscall.SIGKILL)
	f.Silence(t, killed)
	text = hosttest.Output(t, f.Dir, f.Database, "lineup", "set", heavier)
	if strings.Count(text, ": switched") != 2 || !strings.Contains(text, "Revision 2 is in force on 2 hosts.") ||
		!strings.Contains(text, ":"+killed.Name()+": skipped") {
		t.Errorf("lineup set printed\n%s", text)
	}
	hosts := hosttest.OutputJSON[[]fleet.Host](t, f.Dir, f.Database, "lineup", "hosts")
	if len(hosts) != 3 || len(fleet.Silent(hosts)) != 1 {
		t.Errorf("lineup hosts: %+v", hosts)
	}
}
