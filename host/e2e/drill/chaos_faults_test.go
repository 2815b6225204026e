//go:build !race

package drill

import (
	"bytes"
	"context"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"

	"assay/host/store/storetest"
	"assay/registry/expect"
)

// everything is the target of faults that affect all hosts.
const everything = -1

// brokenTime is the time of a fault.
type brokenTime struct {
	kind         string
	host         int // or everything
	began, ended time.Time
}

// chaosFault is a way to break something for about d. inflict repairs it after during has returned.
type chaosFault struct {
	kind     string
	database bool // it affects all hosts
	most     time.Duration
	inflict  func(ctx context.Context, host int, d time.Duration, during func())
	reason   string // that /readyz gives meanwhile
	down     bool   // the hosts refuse everything that needs the database
	certain  bool   // it leaves no doubt whether a check was recorded
}

// Kinds of faults.
const (
	killOfHost   = "kill -9 of a host"
	stopOfHost   = "SIGSTOP of a host"
	jumpingClock = "a clock that jumps"
)

// faults returns every kind of fault.
func (r *chaosRun) faults() []chaosFault {
	return slices.Concat(r.hostFaults(), r.crashes(), r.privateKill(), r.refusals())
}

// hostFaults returns the faults of single hosts.
func (r *chaosRun) hostFaults() []chaosFault {
	link := func(kind string, most time.Duration, reason string, set func(p *storetest.Proxy, broken bool)) chaosFault {
		return chaosFault{kind: kind, most: most, reason: reason,
			inflict: func(_ context.Context, i int, _ time.Duration, during func()) {
				set(r.hosts[i].proxy, true)
				during()
				set(r.hosts[i].proxy, false)
			}}
	}
	slow := func(delay time.Duration) func(*storetest.Proxy, bool) {
		return func(p *storetest.Proxy, broken bool) {
			p.Slow(map[bool]time.Duration{true: delay}[broken])
		}
	}
	return []chaosFault{ // those that take longest first
		link("a host's connections cut silently", 4*time.Second, notResponding,
			func(p *storetest.Proxy, broken bool) { p.Silence(broken) }),
		{kind: killOfHost, most: 2 * time.Second, inflict: r.kill},
		{kind: stopOfHost, most: 5 * time.Second,
			inflict: func(_ context.Context, i int, _ time.Duration, during func()) {
				r.hosts[i].signal(syscall.SIGSTOP)
				during()
				r.hosts[i].signal(syscall.SIGCONT)
			}},
		link("a host's connections cut", time.Second, "", func(p *storetest.Proxy, broken bool) {
			if broken {
				p.Disconnect()
			}
		}),
		link("no database for a host", 5*time.Second, notResponding,
			func(p *storetest.Proxy, broken bool) { p.Set(nil, broken) }),
		link("a host's connections slow", 5*time.Second, "", slow(50*time.Millisecond)),
		link("a host's connections too slow", 5*time.Second, notResponding, slow(700*time.Millisecond)),
		{kind: "a host's connections hang, then break", most: 4 * time.Second,
			inflict: func(ctx context.Context, i int, d time.Duration, _ func()) {
				r.hosts[i].proxy.Slow(d)
				wait(ctx, d*3/4)
				r.hosts[i].proxy.Disconnect()
				r.hosts[i].proxy.Slow(0)
			}},
		{kind: jumpingClock, most: 5 * time.Second, inflict: r.jump},
	}
}

// ofDatabase completes a fault of Postgres.
func ofDatabase(f chaosFault, inflict func(ctx context.Context, during func())) chaosFault {
	f.database, f.most = true, 4*time.Second
	f.inflict = func(ctx context.Context, _ int, _ time.Duration, during func()) { inflict(ctx, during) }
	return f
}

// crashes returns the faults that stop Postgres, or end its processes.
func (r *chaosRun) crashes() []chaosFault {
	return []chaosFault{
		ofDatabase(chaosFault{kind: "SIGSTOP of Postgres", reason: notResponding}, r.pause),
		ofDatabase(chaosFault{kind: "immediate restart of Postgres", reason: notResponding, down: true},
			func(ctx context.Context, during func()) {
				r.stopPostgres(ctx)
				during()
				r.openPostgres()
			}),
		ofDatabase(chaosFault{kind: "kill -9 of a process of Postgres"}, r.crash),
	}
}

// privateKill returns the fault that a host mends which has Postgres as its private one.
func (r *chaosRun) privateKill() []chaosFault {
	return []chaosFault{ofDatabase(chaosFault{kind: "kill -9 of the private Postgres"}, r.killSupervised)}
}

// refusals returns the faults with which Postgres answers, but records nothing.
func (r *chaosRun) refusals() []chaosFault {
	all := []chaosFault{
		ofDatabase(chaosFault{kind: "Postgres as a standby", reason: onStandby}, r.demote),
		ofDatabase(chaosFault{kind: "Postgres read-only", reason: readOnly, certain: true}, r.forbidWrites),
		ofDatabase(chaosFault{kind: "no space for records", reason: outOfSpace, certain: true}, r.refuseRecords),
	}
	if r.wal != "" {
		all = append(all, chaosFault{kind: "disk full", database: true, most: 2 * time.Second, inflict: r.fillDisk})
	}
	return all
}

// pause stops all processes of Postgres.
func (r *chaosRun) pause(_ context.Context, during func()) {
	var processes []int
	for known := -1; known < len(processes); { // one may be forked while the others are stopped
		known, processes = len(processes), r.postgresProcesses()
		for _, pid := range processes {
			_ = syscall.Kill(pid, syscall.SIGSTOP)
		}
	}
	during()
	for _, pid := range processes {
		_ = syscall.Kill(pid, syscall.SIGCONT)
	}
}

// kill kills a host and starts it again after a while.
func (r *chaosRun) kill(_ context.Context, i int, _ time.Duration, during func()) {
	h := r.hosts[i]
	h.process.Stop(r, syscall.SIGKILL)
	during()
	for {
		process, err := r.startHost(i)
		if err == nil {
			h.mu.Lock()
			h.process, h.url = process, process.URL
			h.mu.Unlock()
			return
		}
		r.Logf("a host does not start: %v", err)
		wait(r.Context(), 200*time.Millisecond)
	}
}

// jump sets the clock of the host in this process wrong by seconds, hours or weeks, back or forth.
func (r *chaosRun) jump(_ context.Context, _ int, d time.Duration, during func()) {
	wrong := []time.Duration{3 * time.Second, -time.Hour, time.Hour, -40 * 24 * time.Hour, 40 * 24 * time.Hour}
	r.clock.Store(int64(wrong[int(d)%len(wrong)]))
	during()
	r.clock.Store(0)
}

// stopPostgres does what pg_ctl stop -m immediate does.
func (r *chaosRun) stopPostgres(ctx context.Context) {
	pid := r.postmaster()
	_ = syscall.Kill(pid, syscall.SIGQUIT)
	for syscall.Kill(pid, 0) == nil {
		wait(context.WithoutCancel(ctx), 5*time.Millisecond)
	}
}

// fillDisk fills the file system of the write-ahead log until Postgres has noticed and d has passed.
func (r *chaosRun) fillDisk(ctx context.Context, _ int, _ time.Duration, during func()) {
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
		const next = "SELECT pg_logical_emit_message(false, 'chaos', 'x'), pg_switch_wal()"
		if execute(bounded, r.url, next) != nil {
			break
		}
	}
	during()
	expect.Error(r, "emptying the disk", os.Remove(file), nil)
	r.openPostgres()
}

// wait waits for a time, or until ctx ends.
func wait(ctx context.Context, d time.Duration) {
	select {
	case <-time.After(d):
	case <-ctx.Done():
	}
}

// execute runs statements on a connection of their own.
func execute(ctx context.Context, url string, statements ...string) error {
	conn, err := pgx.Connect(ctx, url)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close(ctx) }()
	for _, s := range statements {
		if _, err := conn.Exec(ctx, s); err != nil {
			return err
		}
	}
	return nil
}

// inject breaks something for d, and remembers when.
func (r *chaosRun) inject(ctx context.Context, f chaosFault, host int, d time.Duration) {
	b := brokenTime{kind: f.kind, host: host, began: time.Now()}
	switch {
	case f.database:
		b.host = everything
	case f.kind == jumpingClock:
		b.host = len(r.processes())
	}
	r.Logf("%7.1f s  %s, host %d, %v", b.began.Sub(r.began).Seconds(), b.kind, b.host, d.Round(time.Millisecond))
	f.inflict(ctx, host, d, func() {
		wait(ctx, d)
		if f.reason != "" && *drillFor == 0 {
			r.awaitRefusal(f, host)
		}
	})
	b.ended = time.Now()
	if *drillFor == 0 {
		r.awaitService(f, b)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.broken = append(r.broken, b)
}

// breakOnce injects each fault once for d, those of single hosts on all hosts at the same time.
func (r *chaosRun) breakOnce(ctx context.Context, faults []chaosFault, d time.Duration) {
	whole := make(chan int, len(r.processes()))
	for host := range r.processes() {
		whole <- host
	}
	var breaking sync.WaitGroup
	for _, f := range faults {
		if f.database {
			breaking.Wait()
			r.inject(ctx, f, everything, d)
			wait(ctx, d)
			continue
		}
		host := <-whole
		breaking.Go(func() {
			r.inject(ctx, f, host, d)
			whole <- host
		})
	}
	breaking.Wait()
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
		first := random.IntN(len(r.processes()))
		var wg sync.WaitGroup
		for i, f := range some {
			d := between(100*time.Millisecond, f.most)
			wg.Go(func() { r.inject(ctx, f, (first+i)%len(r.processes()), d) })
		}
		wg.Wait()
		wait(ctx, aftermath+between(0, 2*time.Second))
	}
}

// postmaster returns the number of Postgres's first process.
func (r *chaosRun) postmaster() int { return postmasterIn(r.data()) }

// postmasterIn returns the number of the first process of the Postgres in a folder.
func postmasterIn(dir string) int {
	text, err := os.ReadFile(filepath.Join(dir, "postmaster.pid"))
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
