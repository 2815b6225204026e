package hosttest

import (
	"context"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"golang.org/x/sync/errgroup"

	"assay/host/check"
	"assay/host/installation"
	"assay/host/store/postgres/postgrestest"
	"assay/host/store/storetest"
	"assay/registry"
	"assay/registry/activation"
	"assay/registry/expect"
)

// Signed returns the signed note of the last activation.
func (f *TestFleet) Signed(t *testing.T) string {
	t.Helper()
	signed, _, err := f.Backend.Store.LastActivation(t.Context())
	expect.NoError(t, err)
	return signed
}

// KeysAround issues keys of new accounts until it has one inside and one outside of a canary for half of them.
func (f *TestFleet) KeysAround(t *testing.T, canary registry.Digest) (inside, outside string) {
	t.Helper()
	l := &check.Lineup{}
	l.Canary = &check.Canary{Lineup: &check.Lineup{}, Percent: 50, Seed: canary[:]}
	for inside == "" || outside == "" {
		issued := expect.Value(installation.IssueKey(t.Context(), f.Backend.Store, installation.Unlimited(),
			"test"))(t)
		if l.For(issued.Account) == l {
			outside = issued.Secret
		} else {
			inside = issued.Secret
		}
	}
	return inside, outside
}

// Last returns the activation that was stored last.
func (f *TestFleet) Last(t *testing.T) activation.Activation {
	t.Helper()
	return expect.Value(f.Backend.LastActivation(t.Context()))(t)
}

// Metric returns the sum of a host's metrics with a prefix.
func (h *HostProcess) Metric(t *testing.T, prefix string) (sum int) {
	t.Helper()
	for line := range strings.Lines(expect.Value(Scrape(t.Context(), h.Admin))(t)) {
		if strings.HasPrefix(line, prefix) {
			sum += expect.Value(strconv.Atoi(strings.Fields(line)[1]))(t)
		}
	}
	return sum
}

// TestFleet is a number of hosts that share a database.
type TestFleet struct {
	Dir, Database, Key string // of the first host, bypassing its proxy
	Hosts              []*HostProcess
	Dirs               []string           // of the hosts
	Proxies            []*storetest.Proxy // between the hosts and the database
	Backend            *installation.Backend
	Conn               *pgx.Conn
}

// FleetBody is a check whose score depends on the weight of the iban layer alone.
const FleetBody = `{"iban":"DE88370400440532013000"}`

// NewFleet starts n hosts on one database, each behind a proxy of its own, and issues a key.
func NewFleet(t *testing.T, n int) *TestFleet {
	t.Helper()
	f := &TestFleet{Dir: DataDir(t), Database: postgrestest.Database(t)}
	f.Hosts = make([]*HostProcess, n)
	var starting errgroup.Group
	for i := range n {
		dir, proxy := f.Dir, storetest.NewProxy(t, f.Database)
		if i > 0 {
			dir = DataDir(t)
		}
		f.Dirs, f.Proxies = append(f.Dirs, dir), append(f.Proxies, proxy)
		starting.Go(func() (err error) {
			f.Hosts[i], err = TryHost(t, Command(context.WithoutCancel(t.Context()), dir, proxy.URL))
			return err
		})
	}
	expect.NoError(t, starting.Wait())
	f.Backend, f.Conn = OpenStore(t, f.Dir, f.Database), storetest.Session(t, f.Database)
	issued := expect.Value(installation.IssueKey(t.Context(), f.Backend.Store, installation.Unlimited(), "test"))(t)
	f.Key = issued.Secret
	expect.Until(t, "all hosts to appear", func() bool { return len(f.Running(t, 1)) == n })
	return f
}

// Running lists the hosts that run a revision.
func (f *TestFleet) Running(t *testing.T, revision int64) (names []string) {
	t.Helper()
	for _, h := range expect.Value(f.Backend.Store.Hosts(t.Context()))(t) {
		if h.Revision == revision && !h.Silent() {
			names = append(names, h.Name)
		}
	}
	return names
}

// Variant returns a lineup with another weight of its graph layer for IBANs, which affects no constraint.
func Variant(l registry.LineupDocument, weight float64) registry.LineupDocument {
	l.Base, l.Layers = "", slices.Clone(l.Layers)
	for i := range l.Layers {
		if name, _, _ := l.Layers[i].Ref(); name == "graph" {
			l.Layers[i].Weight = maps.Clone(l.Layers[i].Weight)
			l.Layers[i].Weight["iban"] = weight
		}
	}
	return l
}

// Name returns the name of a host in the fleet.
func (h *HostProcess) Name() string { return h.URL[strings.LastIndexByte(h.URL, ':')+1:] }

// Silence makes a stopped host silent without waiting for it.
func (f *TestFleet) Silence(t *testing.T, h *HostProcess) {
	t.Helper()
	expect.Value(f.Conn.Exec(t.Context(), "UPDATE hosts SET seen_at = now() - interval '1 minute' WHERE name LIKE $1",
		"%:"+h.Name()))(t)
}

// RecordedRefs returns the number of check records by reference.
func RecordedRefs(t *testing.T, database string) map[string]int {
	t.Helper()
	rows := expect.Value(storetest.Session(t, database).Query(t.Context(),
		"SELECT ref, count(*) FROM audit_records WHERE kind = 'check' GROUP BY ref"))(t)
	refs := map[string]int{}
	var ref string
	var n int
	_, err := pgx.ForEachRow(rows, []any{&ref, &n}, func() error { refs[ref] = n; return nil })
	expect.NoError(t, err)
	return refs
}
