//go:build !race

package drill

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"

	"assay/host/hosttest"
	"assay/host/lineup"
	"assay/host/lineup/fleet"
	"assay/host/store/storetest"
	"assay/registry"
	"assay/registry/activation"
	"assay/registry/expect"
)

// deafen drops the notifications to all hosts, and keeps them from being stopped, until the result is called.
func (d *drill) deafen() (end func()) {
	d.still.Lock()
	for _, p := range d.Proxies {
		p.DropNotifications(true)
	}
	return func() {
		for _, p := range d.Proxies {
			p.DropNotifications(false)
		}
		d.still.Unlock()
	}
}

// stopAndContinue stops a host at random: mostly for a moment, sometimes for longer than a check of a replaced lineup
// may be recorded, and rarely for so long that the others go on without it.
func (d *drill) stopAndContinue(ctx context.Context) {
	pause := func(shortest, longest time.Duration) { wait(ctx, shortest+rand.N(longest-shortest)) }
	for n := 1; ctx.Err() == nil; n++ {
		pause(0, time.Second)
		d.still.Lock()
		began := time.Now()
		expect.NoError(d, d.Hosts[stoppedHost].Cmd.Process.Signal(syscall.SIGSTOP))
		switch {
		case n%100 == 50:
			pause(fleet.SilentAfter, fleet.SilentAfter+5*time.Second)
		case n%10 == 8:
			pause(2*time.Second, 4*time.Second)
		default:
			pause(0, 300*time.Millisecond)
		}
		expect.NoError(d, d.Hosts[stoppedHost].Cmd.Process.Signal(syscall.SIGCONT))
		d.still.Unlock()
		d.mu.Lock()
		d.stops = append(d.stops, span{began, time.Now()})
		d.mu.Unlock()
	}
}

// paused makes an activation without notifications, while a host with checks in progress is stopped. When it goes on,
// it does not know of the activation, and only the ledger keeps it from answering by the revision that was replaced.
func (d *drill) paused(activate func() error) error {
	defer d.deafen()()
	proxy, process := d.Proxies[stoppedHost], d.Hosts[stoppedHost].Cmd.Process
	proxy.Set(func(message string) storetest.Fate {
		if strings.Contains(message, "lineup_activations") {
			return storetest.Lost
		}
		return storetest.Passes
	}, false)
	defer proxy.Set(nil, false)
	replaced := d.rollbacks[len(d.rollbacks)-1].Revision
	conn := storetest.Session(d, d.Database)
	stop := span{began: time.Now()}
	expect.NoError(d, process.Signal(syscall.SIGSTOP))
	defer func() { expect.NoError(d, process.Signal(syscall.SIGCONT)) }()
	done := make(chan error, 1)
	go func() { done <- activate() }()
	expect.Until(d, "the replaced revision to be refused", func() bool {
		return storetest.Value[bool](d, conn, `SELECT EXISTS (SELECT FROM revisions_in_force
			WHERE revision = $1 AND until < clock_timestamp() - interval '2.3 s')`, replaced)
	})
	answered, refused := d.completed()
	expect.NoError(d, process.Signal(syscall.SIGCONT))
	stop.ended = time.Now()
	d.mu.Lock()
	d.stops = append(d.stops, stop)
	d.mu.Unlock()
	expect.Until(d, "checks of the host that was stopped", func() bool {
		a, r := d.completed()
		return a+r > answered+refused+10
	})
	_, r := d.completed()
	expect.That(d, r != refused, "a host that was stopped refused no check")
	proxy.Set(nil, false)
	return <-done
}

// completed returns how many checks stoppedHost has answered and refused.
func (d *drill) completed() (answered, refused int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	of := func(all []drillAnswer) (n int) {
		for _, a := range all {
			if a.host == stoppedHost {
				n++
			}
		}
		return n
	}
	return of(d.answers), of(d.refused)
}

func (d *drill) kill() {
	began := time.Now()
	d.Hosts[killedHost].Stop(d.T, syscall.SIGKILL)
	d.Silence(d.T, d.Hosts[killedHost])
	d.mu.Lock()
	defer d.mu.Unlock()
	d.deaths = append(d.deaths, span{began: began, ended: began.Add(24 * time.Hour)})
}

// restart starts the host that was killed again.
func (d *drill) restart() {
	h, err := hosttest.TryHost(d.T, hosttest.Command(context.WithoutCancel(d.Context()), d.Dirs[killedHost],
		d.Proxies[killedHost].URL))
	if err != nil {
		d.Error(err)
		return
	}
	// Its own row may be missing yet.
	if hosts := expect.Value(d.Backend.Store.Hosts(d.Context()))(d); len(hosts) > len(d.Hosts) {
		d.Errorf("after the start of a host that was killed, there are %d hosts: %+v", len(hosts), hosts)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.Hosts[killedHost], d.urls[killedHost] = h, h.URL
	d.deaths[len(d.deaths)-1].ended = time.Now()
}

// step makes an activation. Some are made by the commands, which do more and so take longer.
func (d *drill) step(i int) {
	s := drillStep{kind: "set", deaf: i%20 == 8 || i%20 == 9}
	switch {
	case i%10 == 3:
		s.kind = "canary"
	case i%10 == 4:
		s.kind = "promote"
	case i%5 == 0 && len(d.rollbacks) > 1:
		s.kind = "rollback"
	}
	s.command = slices.Contains([]int{7, 23, 24, 40}, i%50)
	if i%50 == 6 {
		s.kind = pausedRollback
	}
	if s.deaf {
		defer d.deafen()()
	}
	d.timed(&s, func() error {
		switch {
		case s.command:
			return d.command(&s, d.fit[i%len(d.fit)])
		case s.kind == pausedRollback:
			return d.paused(func() error { return d.activate(&s, drillLineup{}) })
		}
		return d.activate(&s, d.lineups[i%len(d.lineups)])
	})
}

// timed makes an activation.
func (d *drill) timed(s *drillStep, activate func() error) {
	s.began = time.Now()
	err := activate()
	s.ended = time.Now()
	if err != nil {
		d.Errorf("activation %d (%s): %v", len(d.steps), s.kind, err)
		return
	}
	d.steps = append(d.steps, *s)
}

// activate does what the commands do.
func (d *drill) activate(s *drillStep, next drillLineup) error {
	ctx := d.Context()
	base, err := d.operator.Current(ctx)
	if err != nil {
		return err
	}
	p := lineup.Proposal{Base: base.Activation, Lineup: base.Lineup, Reason: s.kind}
	prepare := false
	switch s.kind {
	case "rollback", overloadedRollback, pausedRollback:
		p.Lineup = d.rollbacks[len(d.rollbacks)-2]
	case "promote":
		if base.Canary == nil {
			return errors.New("there is no canary")
		}
		p.Lineup = base.Canary.Lineup
	default:
		stored, err := lineup.StoreLineup(ctx, d.Backend.Store, next.document, registry.OriginOperator)
		if err != nil {
			return err
		}
		d.byRef[stored] = next
		prepare = true
		if s.kind == "canary" {
			p.Canary = &activation.Canary{Lineup: stored, Share: 40, Limit: 10_000}
		} else {
			p.Lineup = stored
		}
	}
	rollout := &fleet.Rollout{Store: d.Backend.Store}
	a := d.operator.Complete(p)
	if prepare {
		candidate, err := d.operator.Candidate(ctx, a)
		if err != nil {
			return err
		}
		prepared, err := rollout.Prepare(ctx, candidate)
		if err != nil {
			return err
		}
		defer func() { expect.NoError(d, prepared.Close()) }()
	}
	s.commits.began = time.Now()
	signed, err := d.operator.Commit(ctx, a)
	s.commits.ended = time.Now()
	if err != nil {
		return err
	}
	running, err := rollout.Await(ctx, signed.Number)
	if err != nil {
		return err
	}
	d.ran(s, signed.Activation, running)
	return nil
}

// command runs the command of a step.
func (d *drill) command(s *drillStep, next drillLineup) error {
	ctx := d.Context()
	s.commits.began = s.began
	args := []string{"lineup", s.kind, "--reason", "a drill"}
	switch s.kind {
	case "set":
		args = append(args, hosttest.WriteJSON(d.T, next.document), "--force")
	case "canary":
		args = append(args, hosttest.WriteJSON(d.T, next.document), "--share", "40%", "--limit", "100%")
	}
	out, err := hosttest.Command(ctx, d.Dir, d.Database, args...).CombinedOutput()
	if err != nil {
		return fmt.Errorf("lineup %s: %w\n%s", s.kind, err, out)
	}
	inForce, err := d.operator.Current(ctx)
	if err != nil {
		return err
	}
	switch s.kind {
	case "set":
		d.byRef[inForce.Lineup] = next
	case "canary":
		d.byRef[inForce.Canary.Lineup] = next
	}
	hosts, err := d.Backend.Store.Hosts(ctx)
	if err != nil {
		return err
	}
	hosts = slices.DeleteFunc(hosts, func(h fleet.Host) bool {
		return !strings.Contains(string(out), h.Name+": switched")
	})
	d.ran(s, inForce.Activation, hosts)
	return nil
}

// ran notes that hosts run an activation.
func (d *drill) ran(s *drillStep, a activation.Activation, running []fleet.Host) {
	s.Activation = a
	for _, h := range running {
		expect.That(d, h.Activation == a.Number && h.Revision == a.Lineup.Revision,
			"%s runs activation %d and revision %d, want %d and %d", h.Name, h.Activation, h.Revision, a.Number,
			a.Lineup.Revision)
		_, port, _ := strings.Cut(h.Name, ":")
		s.running = append(s.running, port)
	}
	if n := len(d.rollbacks); n == 0 || a.Lineup != d.rollbacks[n-1] {
		d.rollbacks = append(d.rollbacks, a.Lineup)
	}
}

// watch notes which revisions the database allows, for the last time after ctx has ended.
func (d *drill) watch(ctx context.Context) {
	patient := context.WithoutCancel(ctx)
	conn, err := pgx.Connect(patient, d.Database)
	if err != nil {
		d.Error(err)
		return
	}
	defer conn.Close(patient)
	for last := false; !last; {
		last = ctx.Err() != nil
		var f fence
		if err := conn.QueryRow(patient, `SELECT pg_snapshot_xmax(pg_current_snapshot())::text::bigint,
			array_agg(revision) FROM revisions_in_force WHERE until IS NULL OR until > now() - interval '2 s'`).
			Scan(&f.xmax, &f.allowed); err != nil {
			d.Error(err)
			return
		}
		d.fences = append(d.fences, f)
		wait(ctx, 100*time.Millisecond)
	}
}
