//go:build !race

package drill

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"testing"
	"time"

	"assay/host/check"
	"assay/host/cli/measurement"
	"assay/host/entity"
	"assay/host/hosttest"
	"assay/host/installation"
	"assay/host/internal/terminal"
	"assay/host/lineup"
	lineupchange "assay/host/lineup/change"
	"assay/host/store/storetest"
	"assay/registry"
	"assay/registry/activation"
	"assay/registry/expect"
)

// TestActivationsUnderLoad changes the lineup of three hosts that answer checks, are stopped and killed, and lose
// notifications. No check fails but with 503, and each answer is what the lineup of its record says.
func TestActivationsUnderLoad(t *testing.T) {
	t.Parallel()
	d := newDrill(t)
	n, crowd := 8, 8
	if *drillTimes > 0 {
		n, crowd, d.rest = *drillTimes, 150, 0
	}
	d.run(n, crowd)
	d.verify()
	report := d.report()
	t.Log("\n" + report)
	if *drillTimes > 0 {
		expect.NoError(t, d.results.write("Activations", report))
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
	results   results
	operator  *lineupchange.Operator
	lineups   []drillLineup
	fit       []drillLineup // those that the command accepts
	inputs    []drillInput
	accounts  []drillAccount
	byRef     map[activation.Lineup]drillLineup // those that were stored
	perHost   int                               // clients of each host
	rest      time.Duration                     // of a client after an answer
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
	d := &drill{T: t, results: beginResults(resultsFile), TestFleet: hosttest.NewFleet(t, 3), perHost: 2,
		rest: 80 * time.Millisecond, byRef: map[activation.Lineup]drillLineup{}, used: map[drillPhase]float64{}}
	for _, h := range d.Hosts {
		d.urls = append(d.urls, h.URL)
	}
	cfg, out := &installation.Config{DataDir: d.Dir, DatabaseURL: d.Database, DNS: []string{installation.Off},
		RDAPURL: installation.Off}, &terminal.Terminal{Out: t.Output(), Err: t.Output()}
	d.operator = expect.Value(d.Backend.Operator(t.Context(), cfg, out))(t)
	for range 10 {
		issued := expect.Value(installation.IssueKey(t.Context(), d.Backend.Store, installation.Unlimited(),
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

// makeLineups makes lineups with different scores. Those in fit are for operators, who are refused the others.
func (d *drill) makeLineups(cfg *installation.Config, out *terminal.Terminal) {
	hosttest.PushEmpty(d.T, d.Dir, d.Database, "further", `"entities":["domain","iban"],"facts":[],"signals":[]`)
	built := expect.Value(d.operator.Current(d.Context()))(d).Document
	built.Base, built.Layers = "", slices.Clone(built.Layers)
	for i, layer := range built.Layers {
		if name, _, _ := layer.Ref(); slices.Contains(changeableLayers, name) {
			built.Layers[i].Mode = registry.ModeOff
		}
	}
	more := built
	more.Layers = append(slices.Clone(built.Layers), registry.LineupLayer{Layer: "further@1.0.0",
		Weight: registry.ForAll(1)})
	more = expect.Value(lineup.Pin(d.Context(), d.Backend.Store, more, built))(d)

	checker, closeChecker, err := d.Backend.Opener(d.Context(), cfg, out).Checker(d.Context(), "", entity.Domain)
	expect.NoError(d, err)
	defer func() { expect.NoError(d, closeChecker()) }()
	checker.Deadline = measurement.MeasuredDeadline
	var decisions []*check.Decision
	for _, in := range d.inputs {
		e := storetest.Parse(d, in.kind, in.value)
		caller := check.Caller{Account: d.accounts[0].id}
		decisions = append(decisions, expect.Value(checker.Rescore(d.Context(), caller, e))(d).Decision)
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
	expect.Must(d, len(d.lineups) >= 30, "%d lineups have different scores, want at least 30", len(d.lineups))
	for i := range 5 {
		d.fit = append(d.fit, with(hosttest.Variant(built, 7+float64(i)/5)))
	}
	s := drillStep{kind: "set"}
	expect.NoError(d, d.activate(&s, d.lineups[0]))
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
		if *drillTimes > 0 {
			d.load(calm, func() { <-time.After(time.Duration(last-first) * 150 * time.Millisecond) })
		}
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
	d.perHost, d.rest = crowd, 0
	d.load(overloaded, func() {
		for range 2 + n/50 {
			s := drillStep{kind: overloadedRollback}
			d.timed(&s, func() error { return d.activate(&s, drillLineup{}) })
		}
	})
	stopWatching()
	watching.Wait()
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
				<-time.After(d.rest)
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
	page := expect.Value(hosttest.Scrape(d.Context(), d.Hosts[steadyHost].Admin))(d)
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
