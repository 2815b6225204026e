//go:build !race

package main

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"golang.org/x/sync/errgroup"

	"assay/host/auditlog"
	"assay/host/bench"
	"assay/host/chaos"
	"assay/host/postgres"
	"assay/host/store/storetest"
	"assay/registry"
)

var (
	chaosFor  = flag.Duration("chaos", 0, "run TestChaos for this long, with random faults")
	chaosSeed = flag.Uint64("chaos-seed", 0, "seed of the faults; 0: a random one")
)

// chaosHosts is the number of hosts that are processes of their own. Faults of one leave the others to answer. Another
// host, in this process, has a clock that jumps.
const chaosHosts = 3

// everything is the target of faults that affect all hosts.
const everything = -1

// TestChaos breaks three hosts and their Postgres in every way under load, while operators change lineups and keys,
// erase and export. Afterwards the records must agree with what the clients saw. Without -chaos, each fault happens
// once, for a short time.
func TestChaos(t *testing.T) {
	t.Parallel()
	r := newChaosRun(t)
	workers, pause := 8, 20*time.Millisecond
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	var load sync.WaitGroup
	load.Go(func() { r.load.Run(ctx, workers, pause) })
	for _, operate := range []func(context.Context){r.changeLineups, r.changeKeys, r.erase, r.export} {
		load.Go(func() {
			for ctx.Err() == nil {
				operate(ctx)
				r.wait(ctx, time.Second)
			}
		})
	}
	if *chaosFor > 0 {
		r.breakRandomly(ctx, *chaosFor)
	} else {
		for i, f := range r.faults() {
			r.inject(ctx, f, i%chaosHosts, 300*time.Millisecond)
			r.wait(ctx, 300*time.Millisecond)
		}
	}
	stop()
	load.Wait()
	r.settle()
	r.verify()
}

// chaosRun is a Postgres with three hosts.
type chaosRun struct {
	*testing.T
	history *chaos.History
	load    *chaos.Load
	store   *backend
	url     string // of the database, without a proxy
	dir     string // of the private Postgres
	cluster *postgres.Cluster
	wal     string                     // a small file system that holds only the write-ahead log; "": none
	hosts   [chaosHosts + 1]*chaosHost // the last is the one in this process
	clock   atomic.Int64               // by how much its clock is wrong
	lineups []int64
	began   time.Time
	seed    uint64

	mu     sync.Mutex
	broken []brokenTime
}

// chaosHost is a host that is started again whenever it was killed.
type chaosHost struct {
	dir   string
	proxy *storetest.Proxy
	stop  func() // if it runs in this process

	mu      sync.Mutex
	process *hostProcess
	url     string // the last known one
}

// brokenTime is the time of a fault.
type brokenTime struct {
	kind         string
	host         int // or everything
	began, ended time.Time
}

func newChaosRun(t *testing.T) *chaosRun {
	r := &chaosRun{T: t, history: &chaos.History{}, seed: *chaosSeed}
	if r.seed == 0 {
		r.seed = rand.Uint64()
	}
	r.startPostgres()
	secrets := map[string]string{}
	receiver := httptest.NewServer(r.history.Receiver(func(account string) string { return secrets[account] }))
	t.Cleanup(receiver.Close)
	var starting errgroup.Group
	for i := range chaosHosts {
		h := &chaosHost{dir: dataDir(t), proxy: storetest.NewProxy(t, r.url)}
		r.hosts[i] = h
		starting.Go(func() (err error) {
			if h.process, err = r.startHost(i); err == nil {
				h.url = h.process.url
			}
			return err
		})
	}
	storetest.NoError(t, starting.Wait())
	here := &chaosHost{dir: dataDir(t), proxy: storetest.NewProxy(t, r.url)}
	here.url, here.stop = serveHere(t, &serveCmd{LedgerBatch: 256}, &Config{Listen: "127.0.0.1:0", DataDir: here.dir,
		DatabaseURL: here.proxy.URL, DNS: []string{off}, RDAPURL: off,
		WebhookAllow: []string{"127.0.0.1/32"},
		now:          func() time.Time { return time.Now().Add(time.Duration(r.clock.Load())) }})
	r.hosts[chaosHosts] = here
	r.store = openStore(t, r.hosts[0].dir, r.url)
	var clients []*chaos.Client
	for _, account := range []struct {
		plan     string
		quota    int
		endpoint bool
	}{{"pro", 1_000_000_000, true}, {"pro", 1_000_000_000, true}, {"pro", 1_000_000_000, false},
		{"starter", 1_000_000_000, true}, {"pro", 300, true}, {"starter", 50, false}} {
		plan := storetest.Plan(t, account.plan, account.quota)
		issued, err := issueKey(t.Context(), r.store.store, "", plan, "chaos")
		storetest.NoError(t, err)
		client := &chaos.Client{Account: issued.Account, Batches: account.plan == "pro"}
		client.SetKey(issued.ID, issued.Secret)
		clients = append(clients, client)
		if account.endpoint {
			secrets[issued.Account], err = r.store.store.SetEndpoint(t.Context(), issued.Account,
				receiver.URL+"/"+issued.Account)
			storetest.NoError(t, err)
		}
	}
	r.load = chaos.NewLoad(r.history, clients, len(r.hosts), func(i int) string { return r.hosts[i].address() })
	active, err := r.store.store.ActiveLineup(t.Context())
	storetest.NoError(t, err)
	other := active.Lineup
	other.Bias = registry.ByType{}
	for kind, bias := range active.Lineup.Bias {
		other.Bias[kind] = bias + 0.5
	}
	revision, err := r.store.store.ActivateLineup(t.Context(), other, registry.OriginOperator, "chaos")
	storetest.NoError(t, err)
	r.lineups = []int64{active.Revision, revision}
	r.began = time.Now()
	t.Logf("seed %d", r.seed)
	return r
}

func (h *chaosHost) address() string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.url
}

func (h *chaosHost) signal(sig syscall.Signal) {
	h.mu.Lock()
	defer h.mu.Unlock()
	_ = h.process.cmd.Process.Signal(sig)
}

func (r *chaosRun) startHost(i int) (*hostProcess, error) {
	return tryHost(r.T, command(context.WithoutCancel(r.Context()), r.hosts[i].dir, r.hosts[i].proxy.URL,
		"--webhook-allow=127.0.0.1/32"))
}

// startPostgres starts a Postgres of the test's own. If file systems can be mounted, its write-ahead log is on a small
// one.
func (r *chaosRun) startPostgres() {
	needPostgres(r.T)
	dir, err := os.MkdirTemp("", "assay-chaos-")
	storetest.NoError(r, err)
	r.Cleanup(func() { _ = os.RemoveAll(dir) })
	storetest.NoError(r, os.Chmod(dir, 0o711)) // so that the user that Postgres runs as can enter it
	r.dir = filepath.Join(dir, "data")
	r.openPostgres()
	r.url = r.cluster.URL()
	r.Cleanup(func() {
		if err := r.cluster.Close(context.Background()); err != nil {
			r.Error(err)
		}
	})
	wal := filepath.Join(dir, "wal")
	storetest.NoError(r, os.Mkdir(wal, 0o700))
	if err := syscall.Mount("tmpfs", wal, "tmpfs", 0, "size=256m"); err != nil {
		r.Logf("the disk is never full: mounting a file system: %v", err)
		return
	}
	r.Cleanup(func() { _ = syscall.Unmount(wal, syscall.MNT_DETACH) })
	storetest.NoError(r, r.cluster.Close(r.Context()))
	move := exec.Command("sh", "-c", `set -e
		cd "$1"; chown --reference=pg_wal "$2"; chmod 700 "$2"; cp -a pg_wal/. "$2"
		rm -r pg_wal; ln -s "$2" pg_wal; printf 'max_wal_size = 64MB\nmin_wal_size = 32MB\n' >>postgresql.conf`,
		"sh", r.data(), wal)
	if out, err := move.CombinedOutput(); err != nil {
		r.Fatalf("moving the write-ahead log: %v: %s", err, out)
	}
	r.openPostgres()
	r.wal = wal
}

// data returns the folder of the cluster.
func (r *chaosRun) data() string { return filepath.Join(clusterDir(r.T, r.dir), "postgres") }

// openPostgres starts Postgres, or waits for it if it is starting.
func (r *chaosRun) openPostgres() {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(r.Context()), time.Minute)
	defer cancel()
	for {
		cluster, err := postgres.Open(ctx, postgres.Config{Dir: r.dir, Offline: true})
		switch {
		case errors.Is(err, postgres.ErrNotInstalled):
			r.Skipf("this test needs Postgres: %v", err)
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
		r.wait(ctx, 100*time.Millisecond)
	}
}

func (r *chaosRun) wait(ctx context.Context, d time.Duration) {
	select {
	case <-time.After(d):
	case <-ctx.Done():
	}
}

// postmaster returns the number of Postgres's first process.
func (r *chaosRun) postmaster() int {
	text, err := os.ReadFile(filepath.Join(r.data(), "postmaster.pid"))
	if err != nil {
		return 0
	}
	line, _, _ := strings.Cut(string(text), "\n")
	pid, _ := strconv.Atoi(line)
	return pid
}

// postgresProcesses returns the numbers of all processes of Postgres, the postmaster first.
func (r *chaosRun) postgresProcesses() []int {
	first := r.postmaster()
	if first == 0 {
		return nil
	}
	return append([]int{first}, childrenOf(first)...)
}

// childrenOf returns the numbers of a process's children.
func childrenOf(parent int) (all []int) {
	stats, _ := filepath.Glob("/proc/[0-9]*/stat")
	for _, stat := range stats {
		text, err := os.ReadFile(stat)
		if err != nil {
			continue // it has ended
		}
		fields := bytes.Fields(text[bytes.LastIndexByte(text, ')')+1:])
		if len(fields) > 1 && string(fields[1]) == strconv.Itoa(parent) {
			pid, _ := strconv.Atoi(filepath.Base(filepath.Dir(stat)))
			all = append(all, pid)
		}
	}
	return all
}

// chaosFault is a way to break something for about d. inflict returns when it is repaired.
type chaosFault struct {
	kind     string
	database bool // it affects all hosts
	most     time.Duration
	inflict  func(ctx context.Context, host int, d time.Duration)
}

// Kinds of faults.
const (
	stopOfHost   = "SIGSTOP of a host"
	jumpingClock = "a clock that jumps"
)

// faults returns every kind of fault.
func (r *chaosRun) faults() []chaosFault {
	all := []chaosFault{
		{kind: "kill -9 of a host", most: 2 * time.Second, inflict: r.kill},
		{kind: stopOfHost, most: 5 * time.Second, inflict: func(ctx context.Context, i int, d time.Duration) {
			r.hosts[i].signal(syscall.SIGSTOP)
			r.wait(ctx, d)
			r.hosts[i].signal(syscall.SIGCONT)
		}},
		{kind: "a host's connections cut", most: time.Second,
			inflict: func(_ context.Context, i int, _ time.Duration) { r.hosts[i].proxy.Disconnect() }},
		{kind: "no database for a host", most: 5 * time.Second,
			inflict: func(ctx context.Context, i int, d time.Duration) {
				r.hosts[i].proxy.Set(nil, true)
				r.wait(ctx, d)
				r.hosts[i].proxy.Set(nil, false)
			}},
		{kind: "a host's connections slow", most: 5 * time.Second,
			inflict: func(ctx context.Context, i int, d time.Duration) {
				r.hosts[i].proxy.Slow(50 * time.Millisecond)
				r.wait(ctx, d)
				r.hosts[i].proxy.Slow(0)
			}},
		{kind: "a host's connections hang, then break", most: 4 * time.Second,
			inflict: func(ctx context.Context, i int, d time.Duration) {
				r.hosts[i].proxy.Slow(d)
				r.wait(ctx, d*3/4)
				r.hosts[i].proxy.Disconnect()
				r.hosts[i].proxy.Slow(0)
			}},
		{kind: jumpingClock, most: 5 * time.Second, inflict: r.jump},
		{kind: "SIGSTOP of Postgres", database: true, most: 4 * time.Second,
			inflict: func(ctx context.Context, _ int, d time.Duration) {
				processes := r.postgresProcesses()
				for _, pid := range processes {
					_ = syscall.Kill(pid, syscall.SIGSTOP)
				}
				r.wait(ctx, d)
				for _, pid := range processes {
					_ = syscall.Kill(pid, syscall.SIGCONT)
				}
			}},
		{kind: "immediate restart of Postgres", database: true, most: time.Second,
			inflict: func(ctx context.Context, _ int, d time.Duration) {
				r.stopPostgres(ctx)
				r.wait(ctx, d)
				r.openPostgres()
			}},
	}
	if r.wal != "" {
		all = append(all, chaosFault{kind: "disk full", database: true, most: 2 * time.Second, inflict: r.fillDisk})
	}
	return all
}

// kill kills a host and starts it again after a while.
func (r *chaosRun) kill(ctx context.Context, i int, d time.Duration) {
	h := r.hosts[i]
	h.process.stop(r, syscall.SIGKILL)
	r.wait(ctx, d)
	for {
		process, err := r.startHost(i)
		if err == nil {
			h.mu.Lock()
			h.process, h.url = process, process.url
			h.mu.Unlock()
			return
		}
		r.Logf("a host does not start: %v", err)
		r.wait(r.Context(), 200*time.Millisecond)
	}
}

// jump sets the clock of the host in this process wrong by seconds, hours or weeks, back or forth.
func (r *chaosRun) jump(ctx context.Context, _ int, d time.Duration) {
	wrong := []time.Duration{3 * time.Second, -time.Hour, time.Hour, -40 * 24 * time.Hour, 40 * 24 * time.Hour}
	r.clock.Store(int64(wrong[int(d)%len(wrong)]))
	r.wait(ctx, d)
	r.clock.Store(0)
}

// stopPostgres does what pg_ctl stop -m immediate does.
func (r *chaosRun) stopPostgres(ctx context.Context) {
	pid := r.postmaster()
	_ = syscall.Kill(pid, syscall.SIGQUIT)
	for syscall.Kill(pid, 0) == nil {
		r.wait(context.WithoutCancel(ctx), 5*time.Millisecond)
	}
}

// fillDisk fills the file system of the write-ahead log until Postgres has noticed and d has passed.
func (r *chaosRun) fillDisk(ctx context.Context, _ int, d time.Duration) {
	file := filepath.Join(r.wal, "filler")
	f, err := os.Create(file)
	if err != nil {
		r.Errorf("filling the disk: %v", err)
		return
	}
	for err == nil {
		_, err = f.Write(make([]byte, 1<<20))
	}
	f.Close()
	bounded, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
	defer cancel()
	// A new segment of the log needs space; some are kept for later use.
	for range 64 {
		if err := r.query(bounded, "SELECT pg_logical_emit_message(false, 'chaos', 'x'), pg_switch_wal()"); err != nil {
			break
		}
	}
	r.wait(ctx, d)
	if err := os.Remove(file); err != nil {
		r.Errorf("emptying the disk: %v", err)
	}
	r.openPostgres()
}

func (r *chaosRun) query(ctx context.Context, sql string) error {
	conn, err := pgx.Connect(ctx, r.url)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close(ctx) }()
	_, err = conn.Exec(ctx, sql)
	return err
}

// inject breaks something for d, and remembers when.
func (r *chaosRun) inject(ctx context.Context, f chaosFault, host int, d time.Duration) {
	b := brokenTime{kind: f.kind, host: host, began: time.Now()}
	switch {
	case f.database:
		b.host = everything
	case f.kind == jumpingClock:
		b.host = chaosHosts
	}
	r.Logf("%7.1f s  %s, host %d, %v", b.began.Sub(r.began).Seconds(), b.kind, b.host, d.Round(time.Millisecond))
	f.inflict(ctx, host, d)
	b.ended = time.Now()
	r.mu.Lock()
	defer r.mu.Unlock()
	r.broken = append(r.broken, b)
}

// breakRandomly injects random faults, sometimes two at once.
func (r *chaosRun) breakRandomly(ctx context.Context, total time.Duration) {
	random := rand.New(rand.NewPCG(r.seed, 0))
	between := func(least, most time.Duration) time.Duration {
		return least + time.Duration(random.Int64N(int64(most-least)))
	}
	for time.Since(r.began) < total {
		all := r.faults()
		random.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
		some := all[:1]
		if random.IntN(4) == 0 && !(all[0].database && all[1].database) {
			some = all[:2]
		}
		first := random.IntN(chaosHosts)
		var wg sync.WaitGroup
		for i, f := range some {
			d := between(100*time.Millisecond, f.most)
			wg.Go(func() { r.inject(ctx, f, (first+i)%chaosHosts, d) })
		}
		wg.Wait()
		r.wait(ctx, aftermath+between(0, 2*time.Second))
	}
}

// The operators' work. A database that is broken meanwhile makes it fail, which is not a difference.

func (r *chaosRun) changeLineups(ctx context.Context) {
	_ = r.store.store.RollbackLineup(ctx, r.lineups[rand.IntN(len(r.lineups))], "chaos")
}

// changeKeys gives an account a new key, and revokes the old one at once or by rotation after a while. If the outcome
// is not known, the account gets another key.
func (r *chaosRun) changeKeys(ctx context.Context) {
	const overlap = 2 * time.Second
	client := r.load.Clients[rand.IntN(len(r.load.Clients))]
	old, _ := client.Key()
	var revocation chaos.Revocation
	if rand.IntN(2) == 0 {
		revocation = chaos.Revocation{Key: old, Began: time.Now().Add(overlap)}
		if issued, err := r.store.store.RotateKey(ctx, client.Account, old, overlap); err == nil {
			revocation.Done = time.Now().Add(overlap)
			client.SetKey(issued.ID, issued.Secret)
		}
	}
	for current, _ := client.Key(); current == old && ctx.Err() == nil; current, _ = client.Key() {
		if issued, err := r.store.store.CreateKey(ctx, client.Account, "chaos"); err == nil {
			client.SetKey(issued.ID, issued.Secret)
		}
	}
	if revocation.Key == "" {
		revocation = chaos.Revocation{Key: old, Began: time.Now()}
		if r.store.store.RevokeKey(ctx, old) == nil {
			revocation.Done = time.Now()
		}
	}
	r.history.AddRevocation(revocation)
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
	r.load.Post(ctx, rand.IntN(len(r.hosts)), secret, "/gdpr/export", map[string]string{item.Type: item.Value},
		&struct{}{})
}

// settle waits until the hosts have delivered all events and done what else is left, and stops them.
func (r *chaosRun) settle() {
	r.Helper()
	conn := storetest.Session(r, r.url)
	last, same := "", 0
	storetest.Until(r, "the hosts to come to rest", func() bool {
		now := storetest.Value[string](r, conn, `SELECT concat_ws(' ', (SELECT sum(seq) FROM audit_heads),
			(SELECT count(*) FROM graph_contributions),
			(SELECT count(*) FROM webhook_events WHERE state = 'pending'))`)
		if same++; now != last {
			last, same = now, 0
		}
		return same > 500 && strings.HasSuffix(now, " 0 0") // a second or more
	})
	for _, h := range r.hosts[:chaosHosts] {
		h.process.stop(r, syscall.SIGTERM)
	}
	r.hosts[chaosHosts].stop()
}

// verify compares the history with the database, and reports what was done.
func (r *chaosRun) verify() {
	r.Helper()
	state, err := chaos.Read(r.Context(), r.url)
	storetest.NoError(r, err)
	differences := chaos.Check(r.history, state, chaos.Keys{Pseudonym: r.store.keys.Pseudonym,
		Graph: r.store.keys.Graph, Erased: r.store.keys.Erased})
	for i, d := range differences {
		if i < 50 {
			r.Error(d)
		}
	}
	for _, report := range outputJSON[[]auditlog.Report](r.T, r.hosts[0].dir, r.url, "audit", "verify") {
		if !report.OK {
			r.Errorf("audit verify: %+v", report)
		}
	}
	if !slices.ContainsFunc(r.history.Calls, func(c *chaos.Call) bool { return c.Status == http.StatusOK }) {
		r.Error("no check was answered")
	}
	r.logSlowAnswers()
	text := r.report(len(state.Records), len(differences))
	r.Log("\n" + text)
	if *chaosFor > 0 {
		storetest.NoError(r, bench.WriteResults("../docs/results.md", "Faults", text))
	}
}

// logSlowAnswers logs the slowest answers, with the faults at that time.
func (r *chaosRun) logSlowAnswers() {
	calls := slices.DeleteFunc(slices.Clone(r.history.Calls), func(c *chaos.Call) bool {
		return c.Status == 0 || c.Ended.Sub(c.Began) < time.Second || r.stopped(c)
	})
	slices.SortFunc(calls, func(a, b *chaos.Call) int {
		return cmp.Compare(b.Ended.Sub(b.Began), a.Ended.Sub(a.Began))
	})
	for _, c := range calls[:min(len(calls), 20)] {
		during := ""
		for _, f := range r.broken {
			if c.Began.Before(f.ended) && c.Ended.After(f.began) {
				during += fmt.Sprintf(", %s (host %d)", f.kind, f.host)
			}
		}
		r.Logf("%7.1f s  host %d: %d for %d checks after %s%s", c.Began.Sub(r.began).Seconds(), c.Host, c.Status,
			len(c.Items), inSeconds(c.Ended.Sub(c.Began)), during)
	}
}

// report describes the run.
func (r *chaosRun) report(records, differences int) string {
	statuses, checks := map[int]int{}, 0
	for _, c := range r.history.Calls {
		statuses[c.Status]++
		checks += len(c.Items)
	}
	var b strings.Builder
	fmt.Fprintf(&b, "`just chaos %v %d`: %d hosts, %d requests for %d checks in %.0f s", *chaosFor, r.seed,
		len(r.hosts), len(r.history.Calls), checks, time.Since(r.began).Seconds())
	separator := ". Answers: "
	for _, status := range slices.Sorted(maps.Keys(statuses)) {
		name := fmt.Sprint(status)
		if status == 0 {
			name = "no answer"
		}
		fmt.Fprintf(&b, "%s%s %d", separator, name, statuses[status])
		separator = ", "
	}
	fmt.Fprintf(&b, ".\n\n%d records, %d erasures, %d revoked keys, %d webhook deliveries.\n\n**%d differences.**\n\n",
		records, len(r.history.Erasures), len(r.history.Revocations), len(r.history.Deliveries), differences)
	b.WriteString("The longest pause is the longest time without an answer from the hosts that the fault leaves " +
		"alone, or from all hosts if it breaks Postgres. A host is back with its first answer after the fault's end." +
		"\n\n| fault | times | longest pause, median | most | slowest refusal | hosts back after, most |\n" +
		"|---|---|---|---|---|---|\n")
	for _, kind := range slices.Sorted(maps.Keys(r.brokenTimes())) {
		times := r.brokenTimes()[kind]
		pauses := make([]time.Duration, len(times))
		var refusal, back time.Duration
		for i, fault := range times {
			pauses[i] = r.longestPause(fault)
			refusal, back = max(refusal, r.slowestRefusal(fault)), max(back, r.back(fault))
		}
		slices.Sort(pauses)
		fmt.Fprintf(&b, "| %s | %d | %s | %s | %s | %s |\n", kind, len(times), inSeconds(pauses[len(pauses)/2]),
			inSeconds(pauses[len(pauses)-1]), inSeconds(refusal), inSeconds(back))
	}
	return b.String()
}

func inSeconds(d time.Duration) string { return fmt.Sprintf("%.2f s", d.Seconds()) }

// brokenTimes returns the faults by kind. Two at once end together.
func (r *chaosRun) brokenTimes() map[string][]brokenTime {
	kinds := map[string][]brokenTime{}
	for _, fault := range r.broken {
		whole := fault
		for _, other := range r.broken {
			if other != fault && other.began.Before(fault.ended) && other.ended.After(fault.began) {
				whole = brokenTime{kind: "two at once", host: everything, began: fault.began, ended: fault.ended}
				if other.ended.After(whole.ended) {
					whole.ended = other.ended
				}
			}
		}
		kinds[whole.kind] = append(kinds[whole.kind], whole)
	}
	return kinds
}

// aftermath is how long after a fault its consequences are measured. No other fault begins until then.
const aftermath = 2 * time.Second

// stopped reports whether a call's host was stopped meanwhile.
func (r *chaosRun) stopped(c *chaos.Call) bool {
	return slices.ContainsFunc(r.broken, func(f brokenTime) bool {
		return f.kind == stopOfHost && f.host == c.Host && c.Began.Before(f.ended) && c.Ended.After(f.began)
	})
}

// longestPause returns the longest time without an answer during a fault and its aftermath.
func (r *chaosRun) longestPause(fault brokenTime) (longest time.Duration) {
	var ends []time.Time
	for _, c := range r.history.Calls {
		if c.Status == http.StatusOK && c.Host != fault.host {
			ends = append(ends, c.Ended)
		}
	}
	slices.SortFunc(ends, time.Time.Compare)
	for i, end := range ends[1:] {
		if end.After(fault.began) && ends[i].Before(fault.ended.Add(aftermath)) {
			longest = max(longest, end.Sub(ends[i]))
		}
	}
	return longest
}

// slowestRefusal returns how long the slowest 503 took that began during a fault, from a host that was not stopped.
func (r *chaosRun) slowestRefusal(fault brokenTime) (slowest time.Duration) {
	for _, c := range r.history.Calls {
		if c.Status == http.StatusServiceUnavailable && c.Began.After(fault.began) &&
			c.Began.Before(fault.ended.Add(aftermath)) && !r.stopped(c) {
			slowest = max(slowest, c.Ended.Sub(c.Began))
		}
	}
	return slowest
}

// back returns how long after a fault's end the last host answered again.
func (r *chaosRun) back(fault brokenTime) (last time.Duration) {
	for host := range r.hosts {
		first := time.Hour
		for _, c := range r.history.Calls {
			if c.Host == host && c.Status == http.StatusOK && c.Began.After(fault.ended) {
				first = min(first, c.Ended.Sub(fault.ended))
			}
		}
		last = max(last, first)
	}
	return last
}
