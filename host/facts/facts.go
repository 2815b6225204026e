// Package facts collects the facts about an entity that parsing cannot provide: DNS, registration, network, similarity
// and reputation. Each source is a package below this one; the Collector queries them concurrently.
package facts

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"assay/host/check"
	"assay/host/entity"
)

// Source looks up one group of facts. Implementations are safe for concurrent use.
type Source interface {
	// Name returns the first part of all its facts' names: dns, rdap, net, similar, graph or feed.
	Name() string
	// Table returns every fact of the source, in the order of sdk/ABI.md.
	Table() []entity.Fact
	// Observe returns the wanted facts that it could determine, none of them empty, and makes only the lookups that
	// they need. Soon after ctx ends it returns the facts known by then. An error means that a lookup failed and a
	// wanted fact may be missing; the returned facts are valid anyway. An unknown entity is not an error.
	Observe(ctx context.Context, e entity.Entity, wants func(fact string) bool) (entity.Facts, error)
}

const (
	// grace is how long before the check's deadline sources must end, so that their results still arrive in time.
	grace = 4 * time.Millisecond
	// maxRunning limits the concurrent observations of one source, including late ones, so that a hanging source is
	// skipped instead of accumulating goroutines.
	maxRunning = 2048
)

// ErrBusy means that a source has reached its limit of concurrent observations.
var ErrBusy = errors.New("too many lookups are in progress")

// Collector queries sources concurrently. It implements check.Collector.
type Collector struct {
	log     *slog.Logger
	timeout time.Duration // for third parties
	sources []member
}

var _ check.Collector = (*Collector)(nil)

// Complete is implemented by sources whose facts come from the host's own database. Without them a check is refused,
// while the facts of any other source may be absent.
type Complete interface {
	// Complete has no effect; it marks the source.
	Complete()
}

// member is a source and the slots for its concurrent observations.
type member struct {
	Source
	slots chan struct{}
}

// NewCollector returns a collector of the given sources, whose names must differ. Third parties' answers count if they
// arrive within the timeout.
func NewCollector(log *slog.Logger, timeout time.Duration, sources ...Source) *Collector {
	c := &Collector{log: log, timeout: timeout}
	for _, s := range sources {
		c.sources = append(c.sources, member{s, make(chan struct{}, maxRunning)})
	}
	return c
}

// Table returns the facts of all sources.
func (c *Collector) Table() []entity.Fact {
	var all []entity.Fact
	for _, s := range c.sources {
		all = append(all, s.Table()...)
	}
	return all
}

// observation is the result of one source.
type observation struct {
	source int
	facts  entity.Facts
	err    error
}

// Collect implements check.Collector. It ignores wanted facts that no source has.
func (c *Collector) Collect(
	ctx context.Context, e entity.Entity, wanted []string,
) (entity.Facts, []string, error) {
	names := make(map[string]bool, len(wanted))
	groups := make(map[string]bool, len(c.sources))
	for _, name := range wanted {
		names[name] = true
		group, _, _ := strings.Cut(name, ".")
		groups[group] = true
	}
	wants := func(fact string) bool { return names[fact] } // read only from here on

	thirdParties, cancelTimeout := context.WithTimeout(ctx, c.timeout)
	defer cancelTimeout()
	within, cancel := withGrace(thirdParties)
	defer cancel()
	// Buffered for all sources, so that a late one can always send its result and end.
	observations := make(chan observation, len(c.sources))
	unanswered := make([]bool, len(c.sources))
	waiting, required := 0, 0
	for i, s := range c.sources {
		if !groups[s.Name()] {
			continue
		}
		unanswered[i] = true
		waiting++
		deadline := within
		if s.complete() {
			required++
			deadline = ctx
		}
		select {
		case s.slots <- struct{}{}:
			go func() {
				defer func() { <-s.slots }()
				observations <- c.observe(deadline, i, e, wants)
			}()
		default:
			observations <- observation{source: i, err: ErrBusy}
		}
	}
	found := entity.Facts{}
	timeout := thirdParties.Done()
	for waiting > 0 {
		select {
		case o := <-observations:
			waiting--
			source := c.sources[o.source]
			if source.complete() {
				if required--; o.err != nil {
					return nil, nil, unavailable(source, o.err)
				}
			}
			unanswered[o.source] = o.err != nil
			c.keep(found, source.Name(), o, wants)
		case <-timeout:
			timeout = nil
		case <-ctx.Done():
			return nil, nil, unavailable(c.sources[slices.Index(unanswered, true)], ctx.Err())
		}
		if timeout == nil && required == 0 {
			break
		}
	}
	var silent []string
	for i, s := range c.sources {
		if unanswered[i] {
			silent = append(silent, s.Name())
		}
	}
	return found, silent, nil
}

func (m member) complete() bool {
	_, ok := m.Source.(Complete)
	return ok
}

func unavailable(m member, err error) error {
	return &check.UnavailableError{Part: "facts of " + m.Name(), Err: err}
}

// observe queries one source. It turns a panic of the source into an error.
func (c *Collector) observe(ctx context.Context, i int, e entity.Entity, wants func(string) bool) (o observation) {
	o.source = i
	defer func() {
		if r := recover(); r != nil {
			o.facts, o.err = nil, fmt.Errorf("looking up facts: panic: %v", r)
			c.log.Error("fact source panicked", "source", c.sources[i].Name(), "panic", r,
				"stack", string(debug.Stack()))
		}
	}()
	o.facts, o.err = c.sources[i].Observe(ctx, e, wants)
	return o
}

// keep adds a source's wanted facts to found.
func (c *Collector) keep(found entity.Facts, source string, o observation, wants func(string) bool) {
	if o.err != nil {
		c.log.Debug("fact source failed", "source", source, "error", o.err)
	}
	for name, value := range o.facts {
		if value != "" && wants(name) && strings.HasPrefix(name, source+".") {
			found[name] = value
		}
	}
}

// withGrace returns a context that ends slightly before ctx.
func withGrace(ctx context.Context) (context.Context, context.CancelFunc) {
	end, ok := ctx.Deadline()
	if !ok {
		return context.WithCancel(ctx)
	}
	return context.WithDeadline(ctx, end.Add(-min(grace, time.Until(end)/8)))
}

// maxText limits third-party text in a fact, in bytes.
const maxText = 80

// Text cleans third-party text for use in a fact: printable characters only, words separated by single blanks, at most
// maxText bytes.
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
