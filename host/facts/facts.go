// Package facts collects the facts about an entity that parsing cannot provide: DNS, registration, network, similarity
// and reputation. Each source is a package below this one; the Collector queries them concurrently.
package facts

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/bits"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"assay/host/access/admission"
	"assay/host/check"
	"assay/host/entity"
)

// Source looks up one group of facts. Implementations are safe for concurrent use.
type Source interface {
	// Name returns the first part of its facts' names: dns, rdap, net, similar, graph or feed. The source "graph" has
	// the facts of the group "history" too.
	Name() string
	// Table returns every fact of the source, in the order of sdk/ABI.md.
	Table() []entity.Fact
	// Observe returns the wanted facts that it could determine, none of them empty, and makes only the lookups that
	// they need. It returns soon after ctx ends. An error that wraps ErrUnanswered means that wanted facts may be
	// missing because of a third party; the returned facts are valid anyway. After any other error the check is
	// refused, because a decision needs all of the host's own facts. An unknown entity is not an error.
	Observe(ctx context.Context, e entity.Entity, wants func(fact string) bool) (entity.Facts, error)
}

// Memory is implemented by sources that often know their facts without waiting.
type Memory interface {
	// Recall is like Observe but never waits. ok is false if Observe must be called to learn the facts.
	Recall(e entity.Entity, wants func(fact string) bool) (found entity.Facts, ok bool, err error)
}

// ErrUnanswered means that a third party has not answered a lookup in the time that it was given, or that its answer is
// unusable. It never means that this host was too slow.
var ErrUnanswered = errors.New("a third party has not answered")

// ErrUntrusted means that a third party gives false answers, which are not used.
var ErrUntrusted = fmt.Errorf("%w truthfully", ErrUnanswered)

// Join combines the errors of the lookups of one source. The result wraps ErrUnanswered only if all errors do.
func Join(errs ...error) error {
	for _, err := range errs {
		if err != nil && !errors.Is(err, ErrUnanswered) {
			return err
		}
	}
	return errors.Join(errs...)
}

// maxRunning limits the concurrent observations of one source, including late ones, so that a hanging source does not
// accumulate goroutines. Accounts share these slots.
const maxRunning = 2048

// Collector queries sources concurrently. It implements check.Collector.
type Collector struct {
	log     *slog.Logger
	sources []*member
}

var _ check.Collector = (*Collector)(nil)

// member is a source and the slots for its concurrent observations.
type member struct {
	Source
	memory Memory         // the source itself, or nil
	groups []string       // the first parts of its facts' names, each with its dot
	bytes  map[string]int // the maximum size of each fact
	slots  *admission.Shares
	health health
}

// NewCollector returns a collector of the given sources, whose names must differ.
func NewCollector(log *slog.Logger, sources ...Source) *Collector {
	c := &Collector{log: log}
	for _, s := range sources {
		memory, _ := s.(Memory)
		bytes := map[string]int{}
		groups := []string{s.Name() + "."}
		for _, f := range s.Table() {
			group, _, _ := strings.Cut(f.Name, ".")
			groups = append(groups, group+".")
			bytes[f.Name] = f.Bytes
		}
		slices.Sort(groups)
		c.sources = append(c.sources, &member{Source: s, memory: memory, groups: slices.Compact(groups), bytes: bytes,
			slots: admission.NewShares(maxRunning)})
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
	known  bool // false if Recall does not know the facts
	err    error
}

// Collect implements check.Collector. It ignores wanted facts that no source has.
func (c *Collector) Collect(ctx context.Context, account string, e entity.Entity, wanted []string) (
	found entity.Facts, silent []string, err error) {
	ctx = context.WithValue(ctx, accountKey{}, account)
	// Networks without a key share one account's slots, as they share its turns.
	whole, _, _ := strings.Cut(cmp.Or(admission.Holder(ctx), account), "|")
	ctx = admission.WithHolder(ctx, whole)
	wants := func(fact string) bool {
		_, ok := slices.BinarySearch(wanted, fact)
		return ok
	}
	found = entity.Facts{}
	// Buffered for all sources, so that a late source can always send its result and end.
	observations := make(chan observation, len(c.sources))
	var waiting uint64                      // a bit for each source; there are six
	names := make([]string, len(c.sources)) // of the silent sources
	take := func(o observation) {
		s := c.sources[o.source]
		switch {
		case errors.Is(o.err, ErrUntrusted):
			names[o.source] = check.UntrustedSource + s.Name()
		case o.err != nil:
			names[o.source] = s.Name()
		}
		c.keep(found, s, o, wants)
	}
	n := 0
	for i, s := range c.sources {
		if !s.isWanted(wanted) {
			continue
		}
		if s.memory != nil {
			o := c.observe(i, func() (entity.Facts, bool, error) { return s.memory.Recall(e, wants) })
			if o.err != nil && !errors.Is(o.err, ErrUnanswered) {
				return nil, nil, unavailable(s, o.err)
			}
			if o.known {
				take(o)
				continue
			}
		}
		release, err := s.slots.Take(admission.Holder(ctx))
		if err != nil {
			return nil, nil, unavailable(s, err)
		}
		waiting |= 1 << i
		n++
		go func() {
			defer release()
			observations <- c.observe(i, func() (entity.Facts, bool, error) {
				facts, err := s.Observe(ctx, e, wants)
				return facts, true, err
			})
		}()
	}
	for range n {
		select {
		case o := <-observations:
			source := c.sources[o.source]
			if o.err != nil && !errors.Is(o.err, ErrUnanswered) {
				return nil, nil, unavailable(source, o.err)
			}
			// At the end of the check, a third party may have had too little time to answer.
			if err := ctx.Err(); err != nil {
				return nil, nil, unavailable(source, err)
			}
			waiting &^= 1 << o.source
			take(o)
		case <-ctx.Done():
			return nil, nil, unavailable(c.sources[bits.TrailingZeros64(waiting)], ctx.Err())
		}
	}
	return found, append(silent, slices.DeleteFunc(names, func(s string) bool { return s == "" })...), nil
}

// isWanted reports whether the source has one of the wanted facts, which are sorted.
func (m *member) isWanted(wanted []string) bool {
	return slices.ContainsFunc(m.groups, func(group string) bool {
		i, _ := slices.BinarySearch(wanted, group)
		return i < len(wanted) && strings.HasPrefix(wanted[i], group)
	})
}

// accountKey is the key of the caller's account in the context of Observe. Only one source reads it.
type accountKey struct{}

// Account returns the account whose own checks a source may report, or "".
func Account(ctx context.Context) string {
	account, _ := ctx.Value(accountKey{}).(string)
	return account
}

func unavailable(m *member, err error) error {
	return &check.UnavailableError{Part: "facts of " + m.Name(), Err: err}
}

// observe queries one source. It turns a panic of the source into an error.
func (c *Collector) observe(i int, query func() (entity.Facts, bool, error)) (o observation) {
	o.source = i
	defer func() {
		if r := recover(); r != nil {
			o.facts, o.err = nil, fmt.Errorf("looking up facts: panic: %v", r)
			c.sources[i].health.count(o.err)
			c.log.Error("fact source panicked", "source", c.sources[i].Name(), "panic", r,
				"stack", string(debug.Stack()))
		}
	}()
	o.facts, o.known, o.err = query()
	if o.known && !errors.Is(o.err, context.Canceled) {
		c.sources[i].health.count(o.err)
	}
	return o
}

// keep adds a source's wanted facts to found.
func (c *Collector) keep(found entity.Facts, source *member, o observation, wants func(string) bool) {
	if o.err != nil {
		c.log.Debug("fact source failed", "source", source.Name(), "error", o.err)
	}
	for name, value := range o.facts {
		group, _, _ := strings.Cut(name, ".")
		if value != "" && wants(name) && slices.Contains(source.groups, group+".") {
			found[name] = cut(value, cmp.Or(source.bytes[name], len(value)))
		}
	}
}

// cut shortens a fact that is longer than sdk/ABI.md allows: a list to whole entries, other facts to whole characters.
func cut(value string, most int) string {
	if len(value) <= most {
		return value
	}
	if space := strings.LastIndexByte(value[:most+1], ' '); space > 0 {
		most = space
	}
	return strings.ToValidUTF8(value[:most], "")
}

// Days returns the number of whole days between two times, at least 0, as a fact.
func Days(from, to time.Time) string { return strconv.Itoa(max(0, int(to.Sub(from)/(24*time.Hour)))) }

// maxText limits third-party text in a fact, in bytes.
const maxText = 80

// Text cleans third-party text for use in a fact: printable characters only, words separated by single blanks, at most
// maxText bytes.
func Text(s string) string {
	var b strings.Builder
	for _, r := range s {
		if r == utf8.RuneError || !unicode.IsPrint(r) ||
			unicode.In(r, unicode.Other_Default_Ignorable_Code_Point, unicode.Variation_Selector) {
			r = ' '
		}
		if b.Len()+utf8.RuneLen(r) > maxText {
			break
		}
		b.WriteRune(r)
	}
	return strings.Join(strings.Fields(b.String()), " ")
}
