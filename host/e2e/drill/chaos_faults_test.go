//go:build !race

package drill

import (
	"bytes"
	"context"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"
)

// everything is the target of faults that affect all hosts.
const everything = -1

// brokenTime is the time of a fault.
type brokenTime struct {
	kind         string
	host         int // or everything
	began, ended time.Time
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
	h.process.Stop(r, syscall.SIGKILL)
	r.wait(ctx, d)
	for {
		process, err := r.startHost(i)
		if err == nil {
			h.mu.Lock()
			h.process, h.url = process, process.URL
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

// breakOnce injects each fault once for d, those of single hosts on all hosts at the same time.
func (r *chaosRun) breakOnce(ctx context.Context, d time.Duration) {
	var hosts [chaosHosts]sync.WaitGroup
	for i, f := range r.faults() {
		if f.database {
			for h := range hosts {
				hosts[h].Wait()
			}
			r.inject(ctx, f, everything, d)
			r.wait(ctx, d)
			continue
		}
		at := i % chaosHosts
		hosts[at].Wait()
		hosts[at].Go(func() { r.inject(ctx, f, at, d) })
	}
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
