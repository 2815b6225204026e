package main

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"assay/host/fleet"
	"assay/host/postgres/postgrestest"
	"assay/host/store/storetest"
	"assay/registry"
)

// testFleet is a number of hosts that share a database.
type testFleet struct {
	dir, database, key string // of the first host, past its proxy
	hosts              []*hostProcess
	dirs               []string           // of the hosts
	proxies            []*storetest.Proxy // between the hosts and the database
	backend            *backend
	conn               *pgx.Conn
}

// fleetBody is a check whose score depends on the weight of the iban layer alone.
const fleetBody = `{"iban":"DE88370400440532013000"}`

func newFleet(t *testing.T, n int) *testFleet {
	t.Helper()
	f := &testFleet{dir: dataDir(t), database: postgrestest.Database(t)}
	for i := range n {
		dir, proxy := f.dir, storetest.NewProxy(t, f.database)
		if i > 0 {
			dir = dataDir(t)
		}
		f.dirs, f.proxies = append(f.dirs, dir), append(f.proxies, proxy)
		f.hosts = append(f.hosts, startHost(t, dir, proxy.URL))
	}
	f.backend, f.conn = openStore(t, f.dir, f.database), storetest.Session(t, f.database)
	issued, err := issueKey(t.Context(), f.backend.store, unlimited(), "test")
	if err != nil {
		t.Fatal(err)
	}
	f.key = issued.Secret
	storetest.Until(t, "all hosts to appear", func() bool { return len(f.running(t, 1)) == n })
	return f
}

// running lists the hosts that run a revision.
func (f *testFleet) running(t *testing.T, revision int64) (names []string) {
	t.Helper()
	for _, h := range storetest.Must(f.backend.store.Hosts(t.Context()))(t) {
		if h.Revision == revision && !h.Silent() {
			names = append(names, h.Name)
		}
	}
	return names
}

// variant returns the built-in lineup with another weight of the iban layer.
func variant(l registry.LineupDocument, weight float64) registry.LineupDocument {
	l.Base, l.Layers = "", slices.Clone(l.Layers)
	for i := range l.Layers {
		if name, _, _ := l.Layers[i].Ref(); name == "iban" {
			l.Layers[i].Weight = registry.ForAll(weight)
		}
	}
	return l
}

// weightOf returns the weight of a layer for IBANs.
func weightOf(l registry.LineupDocument, layer string) float64 {
	for _, item := range l.Layers {
		if name, _, _ := item.Ref(); name == layer {
			return item.Weight.For("iban")
		}
	}
	return 0
}

// name returns the name of a host in the fleet.
func (h *hostProcess) name() string { return h.url[strings.LastIndexByte(h.url, ':')+1:] }

// silence makes a stopped host silent without waiting for it.
func (f *testFleet) silence(t *testing.T, h *hostProcess) {
	t.Helper()
	if _, err := f.conn.Exec(t.Context(), "UPDATE hosts SET seen_at = now() - interval '1 minute' WHERE name LIKE $1",
		"%:"+h.name()); err != nil {
		t.Fatal(err)
	}
}

// A lineup is in force on every live host, or on none: one that refuses is named, one that is stopped or was killed is
// skipped by name, and no check is recorded under a lineup that was replaced, by a host that was stopped meanwhile
// neither.
func TestLineupOnThreeHosts(t *testing.T) {
	t.Parallel()
	f := newFleet(t, 3)
	first := outputJSON[registry.LineupRevision](t, f.dir, f.database, "lineup", "show").Lineup
	heavier := writeJSON(t, variant(first, weightOf(first, "iban")+0.5))

	// A host that refuses, next to the three that are ready.
	ctx, leave := context.WithCancel(t.Context())
	var refusing sync.WaitGroup
	refusing.Go(func() {
		for ctx.Err() == nil {
			err := f.backend.store.BeatHost(ctx, "host_d", "d:1", fleet.State{Activation: 1, Revision: 1})
			open, failed := f.backend.store.Candidates(ctx)
			for _, c := range open {
				failed = errors.Join(failed, f.backend.store.Answer(ctx, fleet.Answer{Candidate: c.ID, Host: "host_d",
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
	out, err := command(t.Context(), f.dir, f.database, "lineup", "set", heavier).CombinedOutput()
	if err == nil || strings.Contains(string(out), "is in force on") ||
		!strings.Contains(string(out), "nothing was changed, revision 1 stays in force: host d:1 refused: no memory") {
		t.Errorf("setting a lineup that one host refuses: %v\n%s", err, out)
	}
	leave()
	refusing.Wait()
	storetest.NoError(t, f.backend.store.RemoveHost(t.Context(), "host_d"))
	if n := len(f.running(t, 1)); n != 3 {
		t.Errorf("afterwards %d hosts run revision 1, want 3", n)
	}

	// Without it, all switch before the command returns.
	text := output(t, f.dir, f.database, "lineup", "set", heavier)
	if strings.Count(text, ": ready") != 3 || strings.Count(text, ": switched") != 3 ||
		!strings.Contains(text, "Revision 2 is in force on 3 hosts.") {
		t.Errorf("lineup set printed\n%s", text)
	}
	if n := len(f.running(t, 2)); n != 3 {
		t.Errorf("%d hosts run revision 2, want 3", n)
	}

	// One host is stopped with checks in progress, and skipped.
	stopped := f.hosts[2]
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
				if a := postOnce(http.DefaultClient, stopped.url, f.key, fleetBody); a.Status != http.StatusOK &&
					a.Status != http.StatusServiceUnavailable && (a.Status != 500 || a.Ref == "") { // unknown outcome
					t.Errorf("a check was answered with %+v", a)
				}
			}
		})
	}
	storetest.Until(t, "checks of the host", func() bool {
		return storetest.Value[int](t, f.conn, "SELECT count(*) FROM audit_records WHERE kind = 'check'") > 20
	})
	storetest.NoError(t, stopped.cmd.Process.Signal(syscall.SIGSTOP))
	f.silence(t, stopped)
	text = output(t, f.dir, f.database, "lineup", "rollback", "--reason", "a test")
	if strings.Count(text, ": switched") != 2 || !strings.Contains(text, "Revision 1 is in force on 2 hosts.") ||
		!strings.Contains(text, "Skipped, because silent: ") ||
		!strings.Contains(text[strings.Index(text, "Skipped"):], ":"+stopped.name()) {
		t.Errorf("lineup rollback printed\n%s", text)
	}
	_, err = f.conn.Exec(t.Context(), "UPDATE revisions_in_force SET until = until - interval '3 seconds'")
	if err != nil {
		t.Fatal(err)
	}
	replaced := storetest.Value[int64](t, f.conn, "SELECT max(seq) FROM audit_records")
	storetest.NoError(t, stopped.cmd.Process.Signal(syscall.SIGCONT))
	storetest.Until(t, "its checks", func() bool {
		return storetest.Value[int](t, f.conn, "SELECT count(*) FROM audit_records WHERE kind = 'check' AND seq > $1",
			replaced) > 20
	})
	close(end)
	load.Wait()
	storetest.Expect(t, "checks under the replaced lineup", storetest.Value[int](t, f.conn,
		"SELECT count(*) FROM audit_records WHERE kind = 'check' AND seq > $1 AND revision = 2", replaced), 0)

	// One is killed.
	killed := f.hosts[1]
	killed.stop(t, syscall.SIGKILL)
	f.silence(t, killed)
	text = output(t, f.dir, f.database, "lineup", "set", heavier)
	if strings.Count(text, ": switched") != 2 || !strings.Contains(text, "Revision 2 is in force on 2 hosts.") ||
		!strings.Contains(text, ":"+killed.name()+": skipped") {
		t.Errorf("lineup set printed\n%s", text)
	}
	hosts := outputJSON[[]fleet.Host](t, f.dir, f.database, "lineup", "hosts")
	if len(hosts) != 3 || len(fleet.Silent(hosts)) != 1 {
		t.Errorf("lineup hosts: %+v", hosts)
	}
}
