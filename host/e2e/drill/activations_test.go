//go:build !race

package drill

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"assay/host/auditlog"
	"assay/host/check"
	"assay/host/cli/measurement"
	"assay/host/entity"
	"assay/host/hosttest"
	"assay/host/installation"
	"assay/host/internal/terminal"
	"assay/host/lineup"
	lineupchange "assay/host/lineup/change"
	"assay/host/lineup/fleet"
	"assay/host/measure/bench"
	"assay/host/store/storetest"
	"assay/registry"
	"assay/registry/activation"
)

var activationCount = flag.Int("activations", 0, "let TestActivationsUnderLoad make this many activations")

// TestActivationsUnderLoad changes the lineup of three hosts all the time while they answer checks. One of them is
// stopped and continued at random, another is killed and started again, and notifications get lost. No check fails
// but with 503, each answer is what the lineup of its record says, and a host that is said to run an activation does.
func TestActivationsUnderLoad(t *testing.T) {
	t.Parallel()
	d := newDrill(t)
	n, crowd := 10, 20
	if *activationCount > 0 {
		n, crowd = *activationCount, 150
	}
	d.run(n, crowd)
	d.verify()
	report := d.report()
	t.Log("\n" + report)
	if *activationCount > 0 {
		storetest.NoError(t, d.results.Write("Activations", report))
	}
}

// The hosts of a drill.
const (
	steadyHost  = iota // whose answers are timed
	killedHost         // is killed and started again
	stoppedHost        // is stopped and continued
)

// drill is a fleet whose lineup changes all the time.
type drill struct {
	*testing.T
	*hosttest.TestFleet
	results   bench.Results
	operator  *lineupchange.Operator
	lineups   []drillLineup
	fit       []drillLineup // those that the command accepts
	inputs    []drillInput
	accounts  []drillAccount
	byRef     map[activation.Lineup]drillLineup // those that were stored
	perHost   int                               // clients of each host
	still     sync.Mutex                        // held while a host is stopped, or may not be
	rollbacks []activation.Lineup               // where the next rollback leads; the last is in force

	mu      sync.Mutex
	urls    []string // of the hosts
	answers []drillAnswer
	refused []drillAnswer // with 503
	lost    []drillAnswer // those of connections that broke, with a host that was killed, or stopped for seconds
	doubted []drillAnswer // with 500 and a reference: the database had not said within a second whether it committed
	failed  []drillAnswer // neither 200 nor 503
	stops   []span        // of stoppedHost
	deaths  []span        // of killedHost, until it was ready again

	steps  []drillStep
	fences []fence

	used   map[drillPhase]float64 // processor time of steadyHost in seconds
	memory []float64              // of steadyHost, in bytes
}

// drillLineup is a lineup with the score of each input.
type drillLineup struct {
	document registry.LineupDocument
	scores   []int
}

type drillInput struct {
	kind        entity.Type
	value, body string
}

type drillAccount struct{ id, key string }

// span is a time from the beginning to the end of something.
type span struct{ began, ended time.Time }

func (s span) overlaps(other span) bool {
	return s.began.Before(other.ended) && other.began.Before(s.ended)
}

// drillPhase is a part of a drill.
type drillPhase int

const (
	calm       drillPhase = iota // no activations
	changing                     // activations
	overloaded                   // rollbacks, with more clients than the hosts can serve
)

// drillAnswer is an answer to a check.
type drillAnswer struct {
	hosttest.Answer
	span
	url                  string // of the host
	host, account, input int
	phase                drillPhase
}

// drillStep is an activation.
type drillStep struct {
	activation.Activation
	kind    string
	command bool     // made by a command
	deaf    bool     // without notifications
	span             // until all hosts ran it
	commits span     // the transaction, or all of a command
	running []string // ports of the hosts that ran it
}

// The kinds of rollbacks that are not made in the course of other activations.
const (
	overloadedRollback = "rollback, overloaded"
	pausedRollback     = "rollback, a host paused for seconds"
)

// fence is a moment of the database: transactions from before it have numbers below xmax.
type fence struct {
	xmax    int64
	allowed []int64 // the revisions that checks may be recorded under
}

func newDrill(t *testing.T) *drill {
	d := &drill{T: t, results: bench.BeginResults(resultsFile), TestFleet: hosttest.NewFleet(t, 3), perHost: 2,
		byRef: map[activation.Lineup]drillLineup{}, used: map[drillPhase]float64{}}
	for _, h := range d.Hosts {
		d.urls = append(d.urls, h.URL)
	}
	cfg, out := &installation.Config{DataDir: d.Dir, DatabaseURL: d.Database, DNS: []string{installation.Off},
		RDAPURL: installation.Off},
		&terminal.Terminal{Out: t.Output(), Err: t.Output()}
	d.operator = storetest.Must(d.Backend.Operator(t.Context(), cfg, out))(t)
	for range 10 {
		issued := storetest.Must(installation.IssueKey(t.Context(), d.Backend.Store, installation.Unlimited(),
			"drill"))(t)
		d.accounts = append(d.accounts, drillAccount{issued.Account, issued.Secret})
	}
	for kind, values := range map[entity.Type][]string{
		entity.Domain: {"paypal-secure-login.com", "mueller-bakery.de"},
		entity.Email:  {"x8k2q9vz71@mail-kontakt.xyz", "anna.mueller@example.org"},
		entity.Phone:  {"+4915112345678"},
		entity.IBAN:   {"DE88370400440532013000"},
	} {
		for _, value := range values {
			d.inputs = append(d.inputs, drillInput{kind, value, fmt.Sprintf("{%q:%q}", kind, value)})
		}
	}
	d.makeLineups(cfg, out)
	return d
}

// changeableLayers read what earlier checks have left. Without them, a score depends on the lineup alone.
var changeableLayers = []string{"graph", "history", "standing"}

// makeLineups makes lineups with different scores, some of them with a further layer. Those in fit are for operators,
// who are refused the others.
func (d *drill) makeLineups(cfg *installation.Config, out *terminal.Terminal) {
	hosttest.PushEmpty(d.T, d.Dir, d.Database, "further", `"entities":["domain","iban"],"facts":[],"signals":[]`)
	built := storetest.Must(d.operator.Current(d.Context()))(d).Document
	built.Base, built.Layers = "", slices.Clone(built.Layers)
	for i, layer := range built.Layers {
		if name, _, _ := layer.Ref(); slices.Contains(changeableLayers, name) {
			built.Layers[i].Mode = registry.ModeOff
		}
	}
	more := built
	more.Layers = append(slices.Clone(built.Layers), registry.LineupLayer{Layer: "further@1.0.0",
		Weight: registry.ForAll(1)})
	more = storetest.Must(lineup.Pin(d.Context(), d.Backend.Store, more, built))(d)

	checker, closeChecker, err := d.Backend.Opener(d.Context(), cfg, out).Checker(d.Context(), "", entity.Domain)
	storetest.NoError(d, err)
	defer func() { storetest.NoError(d, closeChecker()) }()
	checker.Deadline = measurement.MeasuredDeadline
	var decisions []*check.Decision
	for _, in := range d.inputs {
		e := storetest.Parse(d, in.kind, in.value)
		decisions = append(decisions, storetest.Must(checker.Rescore(d.Context(), d.accounts[0].id, e))(d))
	}
	with := func(l registry.LineupDocument) drillLineup {
		scores := make([]int, len(decisions))
		for i, decided := range decisions {
			outcomes := slices.DeleteFunc(slices.Clone(decided.Layers), func(o check.Outcome) bool {
				return slices.Contains(changeableLayers, o.Layer)
			})
			for j := range outcomes {
				weight := l.Layers[slices.IndexFunc(l.Layers, func(layer registry.LineupLayer) bool {
					name, _, _ := layer.Ref()
					return name == outcomes[j].Layer
				})].Weight.For(string(decided.Type))
				outcomes[j].Weight, outcomes[j].Contribution = weight, weight*float64(outcomes[j].Score)/100
			}
			scores[i] = check.Fuse(l.Bias.For(string(decided.Type)), check.Bands(l.Bands), outcomes).Score
		}
		return drillLineup{l, scores}
	}
	for i := range 60 {
		l := built
		if i%3 == 2 {
			l = more
		}
		l.Bias = registry.ByType{}
		for _, kind := range entity.Types() {
			l.Bias[string(kind)] = built.Bias.For(string(kind)) + float64(i-40)/25
		}
		if next := with(l); !slices.ContainsFunc(d.lineups, func(other drillLineup) bool {
			return slices.Equal(other.scores, next.scores)
		}) {
			d.lineups = append(d.lineups, next)
		}
	}
	if len(d.lineups) < 30 {
		d.Fatalf("%d lineups have different scores, want at least 30", len(d.lineups))
	}
	for i := range 5 {
		d.fit = append(d.fit, with(hosttest.Variant(built, 7+float64(i)/5)))
	}
	s := drillStep{kind: "set"}
	storetest.NoError(d, d.activate(&s, d.lineups[0]))
	s.ended = time.Now()
	d.steps = []drillStep{s}
}

// run makes n activations, with calm times in between, and then some while each host has a crowd of clients.
func (d *drill) run(n, crowd int) {
	const block = 20
	ctx, stop := context.WithCancel(d.Context())
	watched, stopWatching := context.WithCancel(d.Context())
	defer stop()
	defer stopWatching()
	var stopping, watching sync.WaitGroup
	stopping.Go(func() { d.stopAndContinue(ctx) })
	watching.Go(func() { d.watch(watched) })
	for first := 0; first < n; first += block {
		last := min(n, first+block)
		d.load(calm, func() { <-time.After(time.Duration(last-first) * 150 * time.Millisecond) })
		d.load(changing, func() {
			var restarting sync.WaitGroup
			for i := first; i < last; i++ {
				if i%100 == min(n, 100)/2 {
					d.kill()
					restarting.Go(d.restart)
				}
				d.step(i)
			}
			restarting.Wait()
		})
	}
	stop()
	stopping.Wait()
	d.perHost = crowd
	d.load(overloaded, func() {
		for range 2 + n/50 {
			s := drillStep{kind: overloadedRollback}
			d.timed(&s, func() error { return d.activate(&s, drillLineup{}) })
		}
	})
	stopWatching()
	watching.Wait()
}

// deafen drops the notifications to all hosts, and keeps them from being stopped, until the returned function is
// called.
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

// load makes checks while what runs.
func (d *drill) load(phase drillPhase, what func()) {
	ctx, stop := context.WithCancel(d.Context())
	var clients sync.WaitGroup
	for i := range d.perHost * len(d.urls) {
		transport := &http.Transport{}
		defer transport.CloseIdleConnections()
		clients.Go(func() {
			client := &http.Client{Transport: transport}
			for n := i; ctx.Err() == nil; n++ {
				d.check(client, i%len(d.urls), n%len(d.accounts), n/7%len(d.inputs), phase)
			}
		})
	}
	before := d.measure()
	what()
	stop()
	clients.Wait()
	d.used[phase] += d.measure() - before
}

// measure notes how much memory steadyHost has and returns the processor time that it has used.
func (d *drill) measure() float64 {
	page := storetest.Must(hosttest.Scrape(d.Context(), d.Hosts[steadyHost].Admin))(d)
	d.memory = append(d.memory, hosttest.MetricOf(page, "process_resident_memory_bytes"))
	return hosttest.MetricOf(page, "process_cpu_seconds_total")
}

func (d *drill) check(client *http.Client, host, account, input int, phase drillPhase) {
	a := drillAnswer{host: host, account: account, input: input, phase: phase}
	a.began = time.Now()
	d.mu.Lock()
	a.url = d.urls[host]
	d.mu.Unlock()
	a.Answer = hosttest.PostOnce(client, a.url, d.accounts[account].key, d.inputs[input].body)
	a.ended = time.Now()
	d.mu.Lock()
	defer d.mu.Unlock()
	switch {
	case a.Status == http.StatusOK:
		d.answers = append(d.answers, a)
	case a.Status == http.StatusServiceUnavailable:
		d.refused = append(d.refused, a)
	case a.Status == 0 && host != steadyHost:
		d.lost = append(d.lost, a)
		<-time.After(10 * time.Millisecond)
	default:
		d.failed = append(d.failed, a)
	}
}

// stopAndContinue stops a host at random: mostly for a moment, sometimes for longer than a check of a replaced lineup
// may be recorded, and rarely for so long that the others go on without it.
func (d *drill) stopAndContinue(ctx context.Context) {
	pause := func(shortest, longest time.Duration) {
		select {
		case <-ctx.Done():
		case <-time.After(shortest + rand.N(longest-shortest)):
		}
	}
	for n := 1; ctx.Err() == nil; n++ {
		pause(0, time.Second)
		d.still.Lock()
		began := time.Now()
		storetest.NoError(d, d.Hosts[stoppedHost].Cmd.Process.Signal(syscall.SIGSTOP))
		switch {
		case n%100 == 50:
			pause(fleet.SilentAfter, fleet.SilentAfter+5*time.Second)
		case n%10 == 3:
			pause(2*time.Second, 4*time.Second)
		default:
			pause(0, 300*time.Millisecond)
		}
		storetest.NoError(d, d.Hosts[stoppedHost].Cmd.Process.Signal(syscall.SIGCONT))
		d.still.Unlock()
		d.mu.Lock()
		d.stops = append(d.stops, span{began, time.Now()})
		d.mu.Unlock()
	}
}

// paused makes an activation while a host with checks in progress is stopped, until the revision that is replaced may
// no longer be recorded. The host does not learn of the activation before it has completed some checks: only the ledger
// keeps it from answering them by that revision.
func (d *drill) paused(activate func() error) error {
	d.still.Lock()
	defer d.still.Unlock()
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
	storetest.NoError(d, process.Signal(syscall.SIGSTOP))
	defer func() { storetest.NoError(d, process.Signal(syscall.SIGCONT)) }()
	done := make(chan error, 1)
	go func() { done <- activate() }()
	storetest.Until(d, "the replaced revision to be refused", func() bool {
		return storetest.Value[bool](d, conn, `SELECT EXISTS (SELECT FROM revisions_in_force
			WHERE revision = $1 AND until < clock_timestamp() - interval '2.3 s')`, replaced)
	})
	answered, refused := d.completed()
	storetest.NoError(d, process.Signal(syscall.SIGCONT))
	stop.ended = time.Now()
	d.mu.Lock()
	d.stops = append(d.stops, stop)
	d.mu.Unlock()
	storetest.Until(d, "checks of the host that was stopped", func() bool {
		a, r := d.completed()
		return a+r > answered+refused+10
	})
	if _, r := d.completed(); r == refused {
		d.Error("a host that was stopped refused no check")
	}
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
	if hosts := storetest.Must(d.Backend.Store.Hosts(d.Context()))(d); len(hosts) > len(d.Hosts) {
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
		defer func() { storetest.NoError(d, prepared.Close()) }()
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
		if h.Activation != a.Number || h.Revision != a.Lineup.Revision {
			d.Errorf("%s runs activation %d and revision %d, want %d and %d", h.Name, h.Activation, h.Revision,
				a.Number,
				a.Lineup.Revision)
		}
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
		select {
		case <-ctx.Done():
		case <-time.After(100 * time.Millisecond):
		}
	}
}

// drillRecord is what the audit log says of a check.
type drillRecord struct {
	revision int64
	xmin     int64 // the transaction that recorded it
}

// verify compares the answers with the records, and both with the activations.
func (d *drill) verify() {
	records := map[string]drillRecord{}
	rows := storetest.Must(d.Conn.Query(d.Context(),
		"SELECT ref, revision, xmin::text::bigint FROM audit_records WHERE kind = 'check'"))(d)
	var ref string
	var r drillRecord
	_, err := pgx.ForEachRow(rows, []any{&ref, &r.revision, &r.xmin}, func() error { records[ref] = r; return nil })
	storetest.NoError(d, err)

	lineups := map[int64]drillLineup{}
	for stored, l := range d.byRef {
		lineups[stored.Revision] = l
	}
	wrong := map[string]int{}
	problem := func(format string, args ...any) {
		name, _, _ := strings.Cut(format, ":")
		if wrong[name]++; wrong[name] < 5 {
			d.Errorf(format, args...)
		}
	}
	for _, a := range d.failed {
		line := hosttest.Logged(d.Dirs[a.host], a.Ref)
		if a.Status == http.StatusInternalServerError && strings.Contains(line, hosttest.AwaitingOutcome) {
			d.doubted = append(d.doubted, a)
			continue
		}
		problem("failed: %+v\n%s", a, line)
	}
	answered := map[string]bool{}
	for _, a := range d.answers {
		r, recorded := records[a.Ref]
		l, known := lineups[r.revision]
		switch {
		case answered[a.Ref]:
			problem("answered twice: %+v", a)
		case !recorded:
			problem("not recorded: %+v", a)
		case !known:
			problem("recorded under an unknown revision: %d, %+v", r.revision, a)
		case a.Score != l.scores[a.input]:
			problem("not the score of the recorded revision: %d, %d, %+v", r.revision, l.scores[a.input], a)
		}
		answered[a.Ref] = true
		if want, settled := d.expected(a); settled && r.revision != want {
			problem("not by the revision that its host runs: %d instead of %d, %+v", r.revision, want, a)
		}
	}
	if more := len(records) - len(answered); more < 0 || more > len(d.lost)+len(d.doubted) {
		problem("recorded without an answer: %d checks, but %d connections broke and %d outcomes were unknown", more,
			len(d.lost), len(d.doubted))
	}
	for ref, r := range records {
		if !d.allowed(r) {
			problem("recorded too late: %s under revision %d", ref, r.revision)
		}
	}
	for _, a := range d.lost {
		// The limits on reading a request and writing its answer pass while a host is stopped for long.
		long := func(s span) bool { return s.ended.Sub(s.began) > fleet.SilentAfter/2 && s.overlaps(a.span) }
		if a.host == killedHost && !slices.ContainsFunc(d.deaths, a.overlaps) ||
			a.host == stoppedHost && !slices.ContainsFunc(d.stops, long) {
			problem("a connection broke: %+v", a)
		}
	}
	for name, n := range wrong {
		d.Errorf("%d times: %s", n, name)
	}
	if reports := hosttest.OutputJSON[[]auditlog.Report](d.T, d.Dir, d.Database, "audit",
		"verify"); slices.ContainsFunc(reports,
		func(r auditlog.Report) bool { return !r.OK }) {
		d.Errorf("audit verify: %+v", reports)
	}
}

// expected returns the revision that must have decided a check, if its host was said to run an activation before the
// check began, and the next was signed only after its answer.
func (d *drill) expected(a drillAnswer) (revision int64, settled bool) {
	i, _ := slices.BinarySearchFunc(d.steps, a.began, func(s drillStep, at time.Time) int {
		return s.ended.Compare(at)
	})
	i--
	if i < 0 || i+1 < len(d.steps) && d.steps[i+1].commits.began.Before(a.ended) ||
		!slices.ContainsFunc(d.steps[i].running, func(port string) bool { return strings.HasSuffix(a.url, ":"+port) }) {
		return 0, false
	}
	in := d.steps[i].Activation
	l := &check.Lineup{Revision: in.Lineup.Revision}
	if c := in.Canary; c != nil {
		l.Canary = &check.Canary{Lineup: &check.Lineup{Revision: c.Revision}, Percent: c.Share, Seed: c.Hash[:]}
	}
	return l.For(d.accounts[a.account].id).Revision, true
}

// allowed reports whether a record's revision was allowed when its transaction began, or in the 3 s afterwards, for
// which it may have waited.
func (d *drill) allowed(r drillRecord) bool {
	i, _ := slices.BinarySearchFunc(d.fences, r.xmin+1, func(f fence, xid int64) int {
		return cmp.Compare(f.xmax, xid)
	})
	return slices.ContainsFunc(d.fences[max(i-1, 0):min(i+30, len(d.fences))], func(f fence) bool {
		return slices.Contains(f.allowed, r.revision)
	})
}

// report describes the drill.
func (d *drill) report() string {
	var b strings.Builder
	settled, commits, kinds := 0, map[string][]time.Duration{}, map[string][]time.Duration{}
	var rollback time.Duration // the longest while no host was stopped or starting, until its commit
	for _, a := range d.answers {
		if _, ok := d.expected(a); ok {
			settled++
		}
	}
	for _, s := range d.steps[1:] {
		disturbed := slices.ContainsFunc(slices.Concat(d.stops, d.deaths), func(p span) bool {
			return p.overlaps(span{s.commits.began, s.ended})
		})
		kind := s.kind
		switch {
		case s.command || s.kind == pausedRollback:
			continue
		case disturbed:
			kind += ", a host stopped or starting"
		case s.deaf:
			kind += ", without notifications"
		}
		commits[kind] = append(commits[kind], s.commits.ended.Sub(s.commits.began))
		kinds[kind] = append(kinds[kind], s.ended.Sub(s.commits.ended))
		if strings.HasPrefix(s.kind, "rollback") && !disturbed {
			rollback = max(rollback, s.commits.ended.Sub(s.began))
		}
	}
	took := map[drillPhase][]time.Duration{}
	var undisturbed []time.Duration // while no command ran and no host started on the same processors
	for _, a := range d.answers {
		if a.host != steadyHost {
			continue
		}
		took[a.phase] = append(took[a.phase], a.ended.Sub(a.began))
		if a.phase == changing && !slices.ContainsFunc(d.deaths, a.overlaps) &&
			!slices.ContainsFunc(d.steps, func(s drillStep) bool { return s.command && s.overlaps(a.span) }) {
			undisturbed = append(undisturbed, a.ended.Sub(a.began))
		}
	}
	perAnswer := func(p drillPhase) string {
		return fmt.Sprintf("%.1f ms", 1000*d.used[p]/float64(max(1, len(took[p]))))
	}
	fmt.Fprintf(&b, "`just activations %d`: %d activations on three hosts, one stopped %d times, one killed %d times. "+
		"%d answers, %d refused with 503, %d with 500 and a reference because their outcome was unknown after a "+
		"second, %d failed otherwise. %d connections broke at a kill or a stop for seconds. Of %d answers, the "+
		"revision was known in advance.\n\n", *activationCount, len(d.steps)-1, len(d.stops), len(d.deaths),
		len(d.answers), len(d.refused), len(d.doubted), len(d.failed)-len(d.doubted), len(d.lost), settled)
	fmt.Fprintf(&b, "The host that is neither stopped nor killed answered within %v (p50) and %v (p99); while no "+
		"command ran and no host started on the same processors, %v and %v; without activations, %v and %v. An "+
		"answer took %v of its processor time; without activations, %v. Its memory was %.0f MiB at the beginning "+
		"and %.0f MiB at the end.\n\n",
		milli(quantile(took[changing], 50)), milli(quantile(took[changing], 99)),
		milli(quantile(undisturbed, 50)), milli(quantile(undisturbed, 99)),
		milli(quantile(took[calm], 50)), milli(quantile(took[calm], 99)), perAnswer(changing), perAnswer(calm),
		d.memory[0]/(1<<20), d.memory[len(d.memory)-1]/(1<<20))
	fmt.Fprintf(&b, "The slowest rollback was committed %v after the beginning of the command's work.\n\n",
		milli(rollback))
	b.WriteString("How long the commit took, and from then on until all live hosts said that they ran it:\n\n" +
		"| activation | times | commit, median | most | in force, median | most |\n|---|---|---|---|---|---|\n")
	for _, kind := range slices.Sorted(maps.Keys(kinds)) {
		fmt.Fprintf(&b, "| %s | %d | %v | %v | %v | %v |\n", kind, len(kinds[kind]), milli(quantile(commits[kind], 50)),
			milli(quantile(commits[kind], 100)), milli(quantile(kinds[kind], 50)), milli(quantile(kinds[kind], 100)))
	}
	return b.String()
}

func milli(d time.Duration) string { return fmt.Sprintf("%.0f ms", float64(d)/1e6) }

// quantile returns a percentile, and sorts all.
func quantile(all []time.Duration, percent int) time.Duration {
	if len(all) == 0 {
		return 0
	}
	slices.Sort(all)
	return all[min(len(all)*percent/100, len(all)-1)]
}
