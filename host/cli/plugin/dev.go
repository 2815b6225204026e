package plugin

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"assay/host/cli/rollout"
	"assay/host/installation"
	"assay/host/internal/terminal"
	"assay/host/lineup/change"
	"assay/host/lineup/rehearsal"
	"assay/host/lineup/replay"
	"assay/host/sandbox"
	"assay/host/store"
	"assay/registry"
	"assay/registry/project"
)

type pluginDevCmd struct {
	Dir    string   `arg:"" default:"." help:"Folder of the layer."`
	Weight *float64 `placeholder:"W" help:"${plugin_promote_weight}"`
	Keep   bool     `help:"${plugin_dev_keep}"`
	Force  bool     `help:"${lineup_force}"`
	Reason string   `placeholder:"TEXT" help:"Reason for the changes, signed and kept in the history."`
	JSON   bool     `help:"Print a line of JSON for each event."`
}

// devEvent is a line of the JSON output of `assay plugin dev`.
type devEvent struct {
	Event    string            `json:"event"`              // cases, skipped, shadow, traffic or retired
	Cases    *rehearsal.Report `json:"cases,omitempty"`    // after a save
	Reason   string            `json:"reason,omitempty"`   // why the layer was not put in shadow
	Plugin   string            `json:"plugin,omitempty"`   // put in shadow or taken out of it
	Revision int64             `json:"revision,omitempty"` // of the lineup that this made
	Traffic  *devTraffic       `json:"traffic,omitempty"`
}

// devTraffic is what a layer in shadow did in real checks.
type devTraffic struct {
	Checks   int                    `json:"checks"`
	LeftOut  int                    `json:"left_out"` // checks after which no shadow layer ran
	Signals  map[string]int         `json:"signals"`  // checks with each signal
	Flips    []replay.SignalFlips   `json:"flips"`    // verdicts that it would change
	Failures []replay.LayerFailures `json:"failures"`
}

// Run keeps the layer of a folder in shadow until ctx ends.
func (cmd *pluginDevCmd) Run(ctx context.Context, s *installation.Session) error {
	o, err := s.Operator(ctx, s.Config, terminal.Silent)
	if err == nil && o.Key == nil {
		err = rollout.Explain(change.ErrNoKey)
	}
	if err != nil {
		return err
	}
	box := s.OpenSandbox(s.Config, installation.QuietLog(s.Terminal))
	d := &devSession{pluginDevCmd: *cmd, limit: float64(s.FlipLimit), t: s.Terminal, store: s.Store, o: o,
		box: box, calls: map[string]string{}, event: func(devEvent) {}}
	if cmd.JSON {
		d.t = &terminal.Terminal{Out: io.Discard, Err: s.Err}
		events := json.NewEncoder(s.Out)
		d.event = func(e devEvent) { _ = events.Encode(e) } // the reader may have left
	}
	err = watch(ctx, d.t, cmd.Dir, func() error { return d.saved(ctx) }, func() { d.look(ctx) })
	if cmd.Keep {
		return err
	}
	return errors.Join(err, d.end(context.WithoutCancel(ctx)))
}

// devSession is the work on a layer next to a running installation.
type devSession struct {
	pluginDevCmd
	t     *terminal.Terminal
	store *store.Store
	o     *change.Operator
	limit float64          // of the verdicts that a change may change
	box   *sandbox.Sandbox // with the cache of the hosts in this data directory

	event func(devEvent) // called after each event

	name    string                // of the layer that the session put in shadow; "" if there is none
	before  *registry.LineupLayer // the lineup's layer of the same name before; nil if there was none
	calls   map[string]string     // what the layer did in each case, as last printed
	traffic string                // what it did in real checks, as last printed
	looked  time.Time             // at the traffic
}

const (
	lookInterval = time.Second // between looks at the traffic; hosts store it less often
	endTimeout   = time.Minute
)

// saved builds the layer and runs its cases. If they pass, it puts the layer in shadow.
func (d *devSession) saved(ctx context.Context) error {
	wasm, err := project.Build(ctx, d.Dir)
	if err != nil {
		return err
	}
	return withModule(ctx, d.box, wasm, func(p *sandbox.Plugin, m registry.Module) error {
		report, err := runCases(ctx, p, m)
		if err != nil {
			return err
		}
		d.event(devEvent{Event: "cases", Cases: &report})
		d.printCalls(report)
		printFailures(d.t, report)
		if report.Failed > 0 {
			return fmt.Errorf("%d of %d cases failed: what is in shadow stays", report.Failed, len(report.Cases))
		}
		return d.shadow(ctx, m)
	})
}

// printCalls prints what the layer said in the cases that pass, unless it has said the same before.
func (d *devSession) printCalls(report rehearsal.Report) {
	for _, c := range report.Cases {
		if len(c.Differences) > 0 {
			continue // printed with the failures
		}
		var text bytes.Buffer
		out := &terminal.Terminal{Out: &text, Err: &text}
		out.Printf("ok    %s\n", terminal.OneLine(c.Name))
		printAnswer(out, c.Call, "      ")
		printLog(out, c.Call, "      ")
		if d.calls[c.Name] != text.String() {
			d.t.Printf("%s", &text)
		}
		d.calls[c.Name] = text.String()
	}
}

// skip says why the layer is not put in shadow.
func (d *devSession) skip(format string, args ...any) {
	reason := fmt.Sprintf(format, args...)
	d.event(devEvent{Event: "skipped", Reason: reason})
	d.t.Printf("Not in shadow: %s.\n", reason)
}

// shadow publishes a module under a version of its own and puts it in shadow, as a promotion does.
func (d *devSession) shadow(ctx context.Context, m registry.Module) error {
	base, err := d.o.Current(ctx)
	if err != nil {
		return err
	}
	name, version := m.Manifest.Name, registry.DevVersion(m)
	was := base.Document.Layer(name)
	switch {
	case base.Canary != nil:
		d.skip("the canary, revision %d, would end", base.Canary.Revision)
		return nil
	case was != nil && was.Runs() == registry.ModeLive:
		d.skip("%s is live, and a lineup has one version of a layer", was.Layer)
		return nil
	case was != nil && was.Layer == name+"@"+version:
		return nil
	}
	if d.name != name { // the first time, or the manifest has another name now
		if err := d.end(ctx); err != nil {
			return err
		}
		if base, err = d.o.Current(ctx); err != nil {
			return err
		}
		if was != nil && !isDev(*was) {
			layer := *was
			d.before = &layer
		}
	}
	if err := d.store.PublishPlugin(ctx, m, version, "", nil); err != nil {
		return err
	}
	promotion := promotion{Plugin: name + "@" + version, To: inLineup, digest: m.Digest}
	layer := (&pluginPromoteCmd{Weight: d.Weight}).layer(d.before, promotion, m.Manifest)
	done, err := d.o.Put(ctx, change.Change{Base: base, Lineup: base.Document.With(layer), Own: layer, Limit: d.limit,
		Forced: rollout.Forced(d.Force, d.Reason), Reason: cmp.Or(d.Reason, "Try "+promotion.Plugin)})
	if err != nil {
		return rollout.Explain(err)
	}
	d.name, d.traffic = name, ""
	d.event(devEvent{Event: "shadow", Plugin: promotion.Plugin, Revision: done.Revision})
	d.t.Printf("In shadow: %s, revision %d, %s.\n", promotion.Plugin, done.Revision, runsOn(done.Hosts))
	return nil
}

func runsOn(hosts int) string {
	switch hosts {
	case 0:
		return "but no host runs: `assay serve` starts one"
	case 1:
		return "on 1 host"
	}
	return fmt.Sprintf("on %d hosts", hosts)
}

// isDev reports whether a layer of a lineup is a version of `assay plugin dev`.
func isDev(layer registry.LineupLayer) bool {
	_, version, _ := layer.Ref()
	return registry.IsDevVersion(version)
}

// end takes the layer out of the lineup, or restores the layer that it replaced.
func (d *devSession) end(ctx context.Context) error {
	if d.name == "" {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, endTimeout)
	defer cancel()
	name, before := d.name, d.before
	d.name, d.before = "", nil
	base, err := d.o.Current(ctx)
	if err != nil {
		return err
	}
	was := base.Document.Layer(name)
	if was == nil || !isDev(*was) {
		return nil // somebody has changed it since
	}
	d.t.Printf("Taking %s out of the lineup ...\n", was.Layer)
	next := base.Document.Without(name)
	if before != nil {
		next = base.Document.With(*before)
	}
	canary, err := d.o.CanaryWithout(ctx, base, name)
	if err != nil {
		return err
	}
	done, err := d.o.Put(ctx, change.Change{Base: base, Lineup: next, Canary: canary, Limit: d.limit,
		Forced: rollout.Forced(d.Force, d.Reason), Reason: cmp.Or(d.Reason, "End the trial of "+was.Layer)})
	if err != nil {
		return fmt.Errorf("taking %s out of the lineup, as `assay plugin retire %s` does: %w", was.Layer, name,
			rollout.Explain(err))
	}
	d.event(devEvent{Event: "retired", Plugin: was.Layer, Revision: done.Revision})
	d.t.Printf("Revision %d is in force.\n", done.Revision)
	return nil
}

// look prints what the layer did in real checks, where that has changed.
func (d *devSession) look(ctx context.Context) {
	if d.name == "" || time.Since(d.looked) < lookInterval {
		return
	}
	text := "traffic  none: the layer is no longer in shadow\n"
	traffic, err := d.read(ctx)
	d.looked = time.Now()
	switch {
	case ctx.Err() != nil:
		return
	case err != nil:
		text = fmt.Sprintf("traffic  cannot be read: %v\n", err)
	case traffic != nil:
		text = traffic.String()
		if text != d.traffic {
			d.event(devEvent{Event: "traffic", Traffic: traffic})
		}
	}
	for line := range strings.Lines(text) {
		if !strings.Contains(d.traffic, line) {
			d.t.Printf("%s", line)
		}
	}
	d.traffic = text
}

// read returns what the layer did in real checks, or nil if it is no longer in shadow.
func (d *devSession) read(ctx context.Context) (*devTraffic, error) {
	base, err := d.o.Current(ctx)
	if err != nil {
		return nil, err
	}
	if layer := base.Document.Layer(d.name); layer == nil || !isDev(*layer) {
		return nil, nil
	}
	stored, err := d.store.ShadowReports(ctx)
	if err != nil {
		return nil, err
	}
	report, err := replay.MergeShadows(base.Lineup.Revision, stored...)
	if err != nil {
		return nil, err
	}
	return trafficOf(d.name, report), nil
}

// trafficOf returns what a report says about one layer.
func trafficOf(name string, report *replay.ShadowReport) *devTraffic {
	t := &devTraffic{LeftOut: report.LeftOut, Signals: map[string]int{}, Flips: []replay.SignalFlips{},
		Failures: []replay.LayerFailures{}}
	for _, e := range report.Emitted {
		if e.Layer == name {
			t.Checks, t.Signals = e.Checks, e.Signals
		}
	}
	for _, s := range report.Report.Signals {
		if s.Layer == name {
			t.Flips = append(t.Flips, s)
		}
	}
	for _, f := range report.Report.Failures {
		if f.Layer == name {
			t.Failures = append(t.Failures, f)
		}
	}
	return t
}

// String says in lines how often the layer emitted its signals, and which verdicts they would change.
func (t *devTraffic) String() string {
	var b strings.Builder
	line := func(format string, args ...any) { fmt.Fprintf(&b, "traffic  "+format+"\n", args...) }
	if t.Checks > 0 {
		line("%d checks, and %d left out", t.Checks, t.LeftOut)
	}
	for _, code := range (replay.EmittedSignals{Signals: t.Signals}).Codes() {
		line("%d of them (%.3g%%) have %s", t.Signals[code], 100*float64(t.Signals[code])/float64(t.Checks), code)
	}
	for _, s := range t.Flips {
		line("%d %s verdicts would go from %s to %s, mostly for %s", s.Flips, s.Type, s.From, s.To, s.Code)
	}
	for _, f := range t.Failures {
		line("%d calls failed (%s)", f.Checks, f.Reason)
	}
	return b.String()
}
