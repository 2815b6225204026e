// Package facts collects what can be observed about an entity and what parsing cannot tell: DNS, registration, network,
// similarity, reputation. Sources do the looking up, each in a package below this one; the Collector asks them side by
// side.
package facts

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"assay/host/check"
	"assay/host/entity"
)

// Source looks up one group of facts. Implementations are safe for concurrent use.
type Source interface {
	// Name is the first part of the names of all its facts: dns, rdap, net, similar, graph, feed.
	Name() string
	// Table lists every fact it can give, in the order in which sdk/ABI.md prints them.
	Table() []entity.Fact
	// Observe returns those of the wanted facts that became known, none of them empty, and makes no lookup that no
	// wanted fact needs. It returns soon after ctx ends, with what it knows by then. The error says that something
	// which was asked for stayed unknown although the source should have known it; the facts count nevertheless. An
	// entity of which the source knows nothing is no error.
	Observe(ctx context.Context, e entity.Entity, wants func(fact string) bool) (entity.Facts, error)
}

const (
	// grace is how much earlier than the check's own deadline sources must end, so that what they know by then still
	// counts.
	grace = 4 * time.Millisecond
	// maxRunning bounds how many observations of one source run at once, late ones included: a source that hangs is
	// left out instead of piling up.
	maxRunning = 2048
)

// ErrBusy means that a source already has as many observations under way as it may.
var ErrBusy = errors.New("too many lookups are under way")

// Collector asks sources side by side. It implements check.Collector.
type Collector struct {
	log     *slog.Logger
	sources []member
}

var _ check.Collector = (*Collector)(nil)

// member is a source with the slots for its observations.
type member struct {
	Source
	slots chan struct{}
}

// NewCollector returns a collector of the given sources, whose names must differ.
func NewCollector(log *slog.Logger, sources ...Source) *Collector {
	c := &Collector{log: log}
	for _, s := range sources {
		c.sources = append(c.sources, member{s, make(chan struct{}, maxRunning)})
	}
	return c
}

// Table lists the facts of all sources.
func (c *Collector) Table() []entity.Fact {
	var all []entity.Fact
	for _, s := range c.sources {
		all = append(all, s.Table()...)
	}
	return all
}

// observation is what one source said.
type observation struct {
	source int
	facts  entity.Facts
	err    error
}

// Collect implements check.Collector. Wanted facts that no source has are left out without a word.
func (c *Collector) Collect(ctx context.Context, e entity.Entity, wanted []string) (entity.Facts, []string) {
	names := make(map[string]bool, len(wanted))
	groups := make(map[string]bool, len(c.sources))
	for _, name := range wanted {
		names[name] = true
		group, _, _ := strings.Cut(name, ".")
		groups[group] = true
	}
	wants := func(fact string) bool { return names[fact] } // read only from here on

	within, cancel := withGrace(ctx)
	defer cancel()
	// Buffered for all, so that a late source can always leave its answer, which nobody reads, and end.
	heard := make(chan observation, len(c.sources))
	asked := make([]bool, len(c.sources))
	waiting := 0
	for i, s := range c.sources {
		if !groups[s.Name()] {
			continue
		}
		asked[i] = true
		waiting++
		select {
		case s.slots <- struct{}{}:
			go func() {
				defer func() { <-s.slots }()
				heard <- c.observe(within, i, e, wants)
			}()
		default:
			heard <- observation{source: i, err: ErrBusy}
		}
	}
	found := entity.Facts{}
	for waiting > 0 {
		select {
		case o := <-heard:
			waiting--
			asked[o.source] = o.err != nil
			c.keep(found, c.sources[o.source].Name(), o, wants)
		case <-ctx.Done():
			waiting = 0
		}
	}
	var silent []string
	for i, s := range c.sources {
		if asked[i] {
			silent = append(silent, s.Name())
		}
	}
	return found, silent
}

// observe asks one source. A source that panics has not answered; the host lives on.
func (c *Collector) observe(ctx context.Context, i int, e entity.Entity, wants func(string) bool) (o observation) {
	o.source = i
	defer func() {
		if r := recover(); r != nil {
			o.facts, o.err = nil, fmt.Errorf("looking up facts: panic: %v", r)
			c.log.Error("a source of facts panicked", "source", c.sources[i].Name(), "panic", r, "stack",
				string(debug.Stack()))
		}
	}()
	o.facts, o.err = c.sources[i].Observe(ctx, e, wants)
	return o
}

// keep adds to found what was wanted of a source's answer.
func (c *Collector) keep(found entity.Facts, source string, o observation, wants func(string) bool) {
	if o.err != nil {
		c.log.Debug("a source of facts did not answer", "source", source, "error", o.err)
	}
	for name, value := range o.facts {
		if value != "" && wants(name) && strings.HasPrefix(name, source+".") {
			found[name] = value
		}
	}
}

// withGrace returns a context that ends a little before ctx does.
func withGrace(ctx context.Context) (context.Context, context.CancelFunc) {
	end, ok := ctx.Deadline()
	if !ok {
		return context.WithCancel(ctx)
	}
	return context.WithDeadline(ctx, end.Add(-min(grace, time.Until(end)/8)))
}

// maxText bounds a fact that is somebody else's free text, in bytes.
const maxText = 80

// Text returns a text from somebody else's data fit for a fact: printable characters, words one blank apart, 80 bytes
// at most.
func Text(s string) string {
	var b strings.Builder
	for _, r := range s {
		if r == utf8.RuneError || !unicode.IsPrint(r) {
			r = ' '
		}
		if b.Len()+utf8.RuneLen(r) > maxText {
			break
		}
		b.WriteRune(r)
	}
	return strings.Join(strings.Fields(b.String()), " ")
}
