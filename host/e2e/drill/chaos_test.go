//go:build !race

package drill

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"assay/host/check"
	"assay/host/e2e/chaos"
	"assay/host/hosttest"
	"assay/host/hosttest/inprocess"
	"assay/host/installation"
	"assay/host/server"
	"assay/host/store/postgres"
	"assay/host/store/postgres/postgrestest"
	"assay/host/store/storetest"
	"assay/registry"
	"assay/registry/expect"
)

// TestChaos breaks three hosts and their Postgres in every way under load, while operators change lineups and keys,
// erase and export. Afterwards the records must agree with what the clients saw. One account sends what was not
// answered again, to any host and with the same Idempotency-Key: each of its requests is answered and recorded once.
// Without -for, each fault happens once, for a short time, in one of four runs.
func TestChaos(t *testing.T) {
	t.Parallel()
	if *drillFor > 0 {
		runChaos(t, 3, nil)
		return
	}
	short := func(name string, hosts int, faults func(*chaosRun) []chaosFault) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			runChaos(t, hosts, faults)
		})
	}
	short("hosts", 3, (*chaosRun).hostFaults)
	short("crashes", 1, (*chaosRun).crashes)
	short("private", 1, (*chaosRun).privateKill)
	short("refusals", 1, (*chaosRun).refusals)
}

// runChaos injects faults under load into a number of hosts that are processes of their own. Another host, in this
// process, has a wrong clock.
func runChaos(t *testing.T, hosts int, faults func(*chaosRun) []chaosFault) {
	r := newChaosRun(t, hosts)
	workers, pause := 5, 50*time.Millisecond
	if *drillFor > 0 {
		workers, pause = 8, 20*time.Millisecond
	}
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	var load sync.WaitGroup
	load.Go(func() { r.load.Run(ctx, workers, pause) })
	load.Go(func() { r.repeating.Run(ctx, 2, pause/2) })
	for _, operate := range []func(context.Context){r.changeLineups, r.changeKeys, r.erase, r.export} {
		load.Go(func() {
			for ctx.Err() == nil {
				operate(ctx)
				wait(ctx, time.Second)
			}
		})
	}
	if *drillFor > 0 {
		r.breakRandomly(ctx, *drillFor)
	} else {
		r.breakOnce(ctx, faults(r), 100*time.Millisecond)
	}
	stop()
	load.Wait()
	r.settle()
	r.verify()
}

// chaosRun is a Postgres with hosts.
type chaosRun struct {
	*testing.T
	results results
	history *chaos.History
	load    *chaos.Load
	// The load of an account whose calls are sent again until they are answered.
	repeating *chaos.Load
	store     *installation.Backend
	url       string // of the database, without a proxy
	dir       string // of the private Postgres
	cluster   *postgres.Cluster
	wal       string       // a small file system that holds only the write-ahead log; "": none
	hosts     []*chaosHost // processes of their own, and one in this process
	clock     atomic.Int64 // by how much its clock is wrong
	lineups   []int64
	began     time.Time
	seed      uint64

	mu     sync.Mutex
	broken []brokenTime
}

// chaosHost is a host that is started again whenever it was killed.
type chaosHost struct {
	dir   string
	proxy *storetest.Proxy
	stop  func() // if it runs in this process

	mu      sync.Mutex
	process *hosttest.HostProcess
	url     string // the last known one
}

func newChaosRun(t *testing.T, hosts int) *chaosRun {
	r := &chaosRun{T: t, results: beginResults(resultsFile), seed: *drillSeed,
		history: &chaos.History{WrongClock: map[int]bool{hosts: true}}}
	if r.seed == 0 {
		r.seed = rand.Uint64()
	}
	r.startPostgres()
	r.startHosts(hosts)
	address := func(i int) string { return r.hosts[i].address() }
	r.load = chaos.NewLoad(r.history, r.newClients(), len(r.hosts), address)
	r.repeating = chaos.NewLoad(r.history, []*chaos.Client{newClient(r, r.store, installation.Unlimited())},
		len(r.hosts), address)
	r.repeating.Repeat = true
	active := expect.Value(r.store.Store.ActiveLineup(t.Context()))(t)
	other := active.Lineup
	other.Bias = registry.ByType{}
	for kind, bias := range active.Lineup.Bias {
		other.Bias[kind] = bias + 0.5
	}
	revision := expect.Value(hosttest.ActivateLineup(t.Context(), r.store, r.hosts[0].dir, other))(t)
	r.lineups = []int64{active.Revision, revision}
	r.began = time.Now()
	t.Logf("seed %d", r.seed)
	return r
}

// startHosts starts all hosts, each behind a proxy of the database.
func (r *chaosRun) startHosts(n int) {
	var starting errgroup.Group
	for range n + 1 {
		r.hosts = append(r.hosts, &chaosHost{dir: hosttest.DataDir(r.T), proxy: storetest.NewProxy(r, r.url)})
	}
	for i, h := range r.hosts[:n] {
		starting.Go(func() (err error) {
			if h.process, err = r.startHost(i); err == nil {
				h.url = h.process.URL
			}
			return err
		})
	}
	here := r.hosts[n]
	here.url, _, here.stop = inprocess.Serve(r.T, server.Options{LedgerBatch: 256},
		&installation.Config{Listen: "127.0.0.1:0",
			DataDir: here.dir, DatabaseURL: here.proxy.URL, DNS: []string{installation.Off}, RDAPURL: installation.Off,
			WebhookAllow: []string{"127.0.0.1/32"},
			Now:          func() time.Time { return time.Now().Add(time.Duration(r.clock.Load())) }})
	expect.NoError(r, starting.Wait())
	r.store = hosttest.OpenStore(r.T, r.hosts[0].dir, r.url)
}

// newClients creates the accounts that make checks. Some have a webhook endpoint, and two a quota that they use up.
func (r *chaosRun) newClients() (clients []*chaos.Client) {
	const unlimited = 1_000_000_000
	for _, plan := range []check.Plan{storetest.Plan(r, "pro", unlimited), storetest.Plan(r, "pro", unlimited),
		storetest.Plan(r, "pro", unlimited), storetest.Plan(r, "starter", unlimited), storetest.Plan(r, "pro", 300),
		storetest.Plan(r, "starter", 50)} {
		clients = append(clients, newClient(r, r.store, plan))
	}
	receiveEvents(r, r.store, r.history, clients[0], clients[1], clients[3], clients[4])
	return clients
}

// processes returns the hosts that are processes of their own.
func (r *chaosRun) processes() []*chaosHost { return r.hosts[:len(r.hosts)-1] }

func (h *chaosHost) address() string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.url
}

func (h *chaosHost) signal(sig syscall.Signal) {
	h.mu.Lock()
	defer h.mu.Unlock()
	_ = h.process.Cmd.Process.Signal(sig)
}

func (r *chaosRun) startHost(i int) (*hosttest.HostProcess, error) {
	return hosttest.TryHost(r.T, hosttest.Command(context.WithoutCancel(r.Context()), r.hosts[i].dir,
		r.hosts[i].proxy.URL, "--webhook-allow=127.0.0.1/32"))
}

// startPostgres starts a Postgres, with its write-ahead log on a small file system if one can be mounted.
func (r *chaosRun) startPostgres() {
	r.dir = hosttest.PrivateDir(r.T)
	defer func() {
		r.openPostgres()
		r.url = r.cluster.URL()
		r.Cleanup(func() { expect.NoError(r, r.cluster.Close(context.Background())) })
	}()
	wal := filepath.Join(r.dir, "wal")
	expect.NoError(r, os.Mkdir(wal, 0o700))
	if err := syscall.Mount("tmpfs", wal, "tmpfs", 0, "size=256m"); err != nil {
		r.Logf("the disk is never full: mounting a file system: %v", err)
		return
	}
	r.Cleanup(func() { _ = syscall.Unmount(wal, syscall.MNT_DETACH) })
	move := exec.Command("sh", "-c", `set -e
		cd "$1"; chown --reference=pg_wal "$2"; chmod 700 "$2"; cp -a pg_wal/. "$2"
		rm -r pg_wal; ln -s "$2" pg_wal; printf 'max_wal_size = 64MB\nmin_wal_size = 32MB\n' >>postgresql.conf`,
		"sh", r.data(), wal)
	out, err := move.CombinedOutput()
	expect.Must(r, err == nil, "moving the write-ahead log: %v: %s", err, out)
	r.wal = wal
}

// data returns the folder of the cluster.
func (r *chaosRun) data() string { return filepath.Join(postgrestest.ClusterDir(r.dir), "postgres") }

// openPostgres starts Postgres, or waits for it if it is starting.
func (r *chaosRun) openPostgres() {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(r.Context()), time.Minute)
	defer cancel()
	for {
		cluster, err := postgres.Open(ctx, postgres.Config{Dir: r.dir, Offline: true})
		switch {
		case err == nil:
			before := r.cluster
			r.cluster = cluster
			if before != nil {
				_ = before.Close(ctx)
			}
			return
		case ctx.Err() != nil:
			panic(fmt.Sprintf("starting Postgres: %v", err))
		}
		wait(ctx, 100*time.Millisecond)
	}
}

// The operators' work. A database that is broken meanwhile makes it fail, which is not a difference.

func (r *chaosRun) changeLineups(ctx context.Context) {
	_ = hosttest.RollbackLineup(ctx, r.store, r.hosts[0].dir, r.lineups[rand.IntN(len(r.lineups))])
}

// changeKeys gives an account a new key, and revokes the old one at once or by rotation after a while.
func (r *chaosRun) changeKeys(ctx context.Context) {
	const overlap = 2 * time.Second
	client := r.load.Clients[rand.IntN(len(r.load.Clients))]
	old, _ := client.Key()
	var revocation chaos.Revocation
	if rand.IntN(2) == 0 {
		now := time.Now()
		revocation = chaos.Revocation{Key: old, Began: now.Add(overlap), Rotated: now}
		if issued, err := r.store.Store.RotateKey(ctx, client.Account, old, overlap); err == nil {
			revocation.Done = time.Now().Add(overlap)
			client.SetKey(issued.ID, issued.Secret)
		}
	}
	for current, _ := client.Key(); current == old && ctx.Err() == nil; current, _ = client.Key() {
		if issued, err := r.store.Store.CreateKey(ctx, client.Account, "chaos"); err == nil {
			client.SetKey(issued.ID, issued.Secret)
		}
		wait(ctx, 20*time.Millisecond) // the database may be down
	}
	if revocation.Key == "" {
		revocation = chaos.Revocation{Key: old, Began: time.Now()}
		if r.store.Store.RevokeKey(ctx, old) == nil {
			revocation.Done = time.Now()
		}
	}
	chaos.Add(r.history, &r.history.Revocations, revocation)
}

// privateClient returns an account whose plan includes the privacy endpoints.
func (r *chaosRun) privateClient() *chaos.Client { return r.load.Clients[rand.IntN(3)] }

// erase erases an entity that others check meanwhile, or a new one.
func (r *chaosRun) erase(ctx context.Context) {
	client, item := r.privateClient(), r.load.PopularItem()
	if rand.IntN(2) == 0 {
		item = chaos.NewItem("email", fmt.Sprintf("person.%d@mailbox-example.net", rand.Uint32()))
		for range 3 {
			r.load.Check(ctx, client, item)
		}
	}
	r.load.Erase(ctx, client, item)
}

func (r *chaosRun) export(ctx context.Context) {
	item := r.load.PopularItem()
	_, secret := r.privateClient().Key()
	r.load.Post(ctx, rand.IntN(len(r.hosts)), secret, "/gdpr/export", "", map[string]string{item.Type: item.Value},
		&struct{}{})
}

// settle waits until the hosts have delivered all events and done what else is left, and stops them.
func (r *chaosRun) settle() {
	r.Helper()
	awaitRest(r, r.url)
	var running []*hosttest.HostProcess
	for _, h := range r.processes() {
		running = append(running, h.process)
	}
	stopAll(r, running...)
	r.hosts[len(running)].stop()
}

// verify compares the history with the database, and reports what was done.
func (r *chaosRun) verify() {
	r.Helper()
	state, differences := compare(r.T, r.history, r.store, r.hosts[0].dir, r.url)
	r.unanswered()
	text := r.report(len(state.Records), len(differences))
	r.Log("\n" + text)
	if *drillFor > 0 {
		expect.NoError(r, r.results.write("Faults", text))
	}
}
