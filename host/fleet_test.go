package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"assay/host/fleet"
	"assay/host/lineup"
	"assay/host/postgres/postgrestest"
	"assay/host/store/storetest"
	"assay/registry"
)

// testFleet is a number of hosts that share a database.
type testFleet struct {
	dir, database, key string
	hosts              []*hostProcess
	backend            *backend
	conn               *pgx.Conn
}

// fleetBody is a check whose score depends on the weight of the iban layer alone.
const fleetBody = `{"iban":"DE88370400440532013000"}`

func newFleet(t *testing.T, n int) *testFleet {
	t.Helper()
	f := &testFleet{dir: dataDir(t), database: postgrestest.Database(t)}
	f.hosts = append(f.hosts, startHost(t, f.dir, f.database))
	for range n - 1 {
		f.hosts = append(f.hosts, startHost(t, dataDir(t), f.database))
	}
	f.backend, f.conn = openStore(t, f.dir, f.database), storetest.Session(t, f.database)
	issued, err := issueKey(t.Context(), f.backend.store, "", unlimited(), "test")
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
		!strings.Contains(string(out), "nothing was changed, revision 1 stays in force: host d:1 refused: no memory left") {
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
					a.Status != http.StatusServiceUnavailable {
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
	if _, err := f.conn.Exec(t.Context(), "UPDATE revisions_in_force SET until = until - interval '3 seconds'"); err != nil {
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

// TestActivationsUnderLoad changes the lineup of three hosts all the time while they answer checks. One of them is
// stopped and continued at random, one is killed. No check fails but with 503, and each answer is of one lineup, the one
// that it is recorded under. ASSAY_ACTIVATIONS sets the number of activations.
func TestActivationsUnderLoad(t *testing.T) {
	t.Parallel()
	activations := 20
	if text := os.Getenv("ASSAY_ACTIVATIONS"); text != "" {
		activations = storetest.Must(strconv.Atoi(text))(t)
	}
	f := newFleet(t, 3)
	a := storetest.Must(f.backend.authority(t.Context(), &Config{DataDir: f.dir, DatabaseURL: f.database},
		&terminal{out: t.Output(), err: t.Output()}))(t)
	built := storetest.Must(a.inForce(t.Context()))(t)
	lineups := []registry.LineupDocument{built.Document, variant(built.Document, 0)}

	type given struct {
		answer
		took time.Duration
	}
	load := func(run func()) (answers []given, refused int) {
		end := make(chan struct{})
		var mu sync.Mutex
		var clients sync.WaitGroup
		for i := range 6 {
			clients.Go(func() {
				for {
					select {
					case <-end:
						return
					default:
					}
					began := time.Now()
					a := postOnce(http.DefaultClient, f.hosts[i%3].url, f.key, fleetBody)
					took := time.Since(began)
					mu.Lock()
					switch {
					case a.Status == http.StatusOK:
						answers = append(answers, given{a, took})
					case a.Status == http.StatusServiceUnavailable:
						refused++
					case a.Status != 0 || i%3 != 1: // the connections of the host that is killed break
						t.Errorf("a check was answered with %+v", a)
					}
					mu.Unlock()
					if a.Status == 0 {
						return
					}
				}
			})
		}
		run()
		close(end)
		clients.Wait()
		return answers, refused
	}
	p99 := func(answers []given) time.Duration {
		took := make([]time.Duration, len(answers))
		for i, a := range answers {
			took[i] = a.took
		}
		slices.SortFunc(took, cmp.Compare[time.Duration])
		return took[len(took)*99/100]
	}
	calm, _ := load(func() { <-time.After(time.Duration(activations) * 50 * time.Millisecond) })

	var slowest time.Duration
	both, refused := load(func() {
		ctx, stop := context.WithCancel(t.Context())
		var stopping sync.WaitGroup
		stopping.Go(func() {
			for ctx.Err() == nil {
				_ = f.hosts[2].cmd.Process.Signal(syscall.SIGSTOP)
				<-time.After(rand.N(300 * time.Millisecond))
				_ = f.hosts[2].cmd.Process.Signal(syscall.SIGCONT)
				<-time.After(rand.N(time.Second))
			}
		})
		for i := range activations {
			if i == activations/2 {
				f.hosts[1].stop(t, syscall.SIGKILL)
				f.silence(t, f.hosts[1])
			}
			slowest = max(slowest, f.activate(t, a, lineups[(i+1)%2]))
		}
		stop()
		stopping.Wait()
	})
	recorded := map[string]int64{}
	rows := storetest.Must(f.conn.Query(t.Context(), "SELECT ref, revision FROM audit_records WHERE kind = 'check'"))(t)
	var ref string
	var revision int64
	_, err := pgx.ForEachRow(rows, []any{&ref, &revision}, func() error { recorded[ref] = revision; return nil })
	storetest.NoError(t, err)
	seen := map[string]int{}
	for _, a := range slices.Concat(calm, both) {
		seen[fmt.Sprint("revision ", recorded[a.Ref], ": ", a.Score)]++
	}
	if len(seen) != 2 {
		t.Errorf("answers by recorded revision and score: %v, want one score for each of two revisions", seen)
	}
	t.Logf("%d activations, the slowest from the commit until all ran it %v; %d answers, %d refused, p99 %v; "+
		"before, %d answers, p99 %v", activations, slowest, len(both), refused, p99(both), len(calm), p99(calm))
}

// activate puts a lineup in force as the command does, and returns the time from the commit until the live hosts ran
// it. Each of them must then have said so.
func (f *testFleet) activate(t *testing.T, a *authority, l registry.LineupDocument) time.Duration {
	t.Helper()
	rollout := &fleet.Rollout{Store: f.backend.store}
	base := storetest.Must(a.inForce(t.Context()))(t)
	stored := storetest.Must(lineup.StoreLineup(t.Context(), f.backend.store, l, registry.OriginOperator))(t)
	next := a.complete(lineup.Proposal{Base: base.Activation, Lineup: stored})
	prepared := storetest.Must(f.backend.prepare(t.Context(), a, rollout, next))(t)
	began := time.Now()
	signed := storetest.Must(f.backend.commit(t.Context(), a, next))(t)
	running := storetest.Must(rollout.Await(t.Context(), signed.Number))(t)
	took := time.Since(began)
	storetest.NoError(t, prepared.Close())
	for _, h := range running {
		if h.Activation != signed.Number || h.Revision != stored.Revision {
			t.Errorf("%s runs activation %d, want %d", h.Name, h.Activation, signed.Number)
		}
	}
	return took
}
