package check

import (
	"context"
	"slices"
	"strings"
	"sync/atomic"

	"assay/host/entity"
)

// Layer is one scoring layer, ready to run. Implementations are safe for concurrent use, return within the budget of
// their own and the context's deadline, never panic, and give the same answer for the same facts. An error is a *Lost.
type Layer interface {
	Score(ctx context.Context, facts Input) (Result, error)
}

// Input is what a layer may read: the entity's facts and the lineup's settings for that layer (config.*).
type Input struct {
	Entity entity.Facts
	Config map[string]string // by name without "config."
}

// Get returns the named fact and whether it is known.
func (f Input) Get(name string) (string, bool) {
	if len(name) > len(configPrefix) && name[:len(configPrefix)] == configPrefix {
		value, ok := f.Config[name[len(configPrefix):]]
		return value, ok
	}
	value, ok := f.Entity[name]
	return value, ok
}

const configPrefix = "config."

// Result is what a layer said.
type Result struct {
	Abstained bool
	Score     int // 0 to 100: the sum of the signals' points, held to that range
	Signals   []Signal
	Threat    string // a category of the published list, or ""
	// what the call burned, about one unit an instruction: the same on every machine for the same facts and instance
	Fuel int64
}

// Signal is one reason a layer gave.
type Signal struct {
	Points int    `json:"points"` // -100 to 100
	Code   string `json:"code"`   // group:kind:detail
	Text   string `json:"text"`   // a sentence for a person
}

// Member is a layer's place in a lineup.
type Member struct {
	Name     string
	Version  string
	Weight   float64 // what a score of 100 adds to the fused log-odds; not negative
	Required bool    // when lost, and a band hangs on it, the verdict is at least review
	Entities []entity.Type
	Facts    []string // every fact that the layer declares to read
	Config   map[string]string
	Layer    Layer

	readsReputation bool // see Outcome
}

// Lineup is a revision ready to run: immutable, and kept by a check from its beginning to its end.
type Lineup struct {
	Revision int64
	Bias     float64 // the fused log-odds of an entity of which no layer has anything to say
	Bands    Bands
	Members  []Member

	byType  map[entity.Type][]int    // indices into Members
	lookups map[entity.Type][]string // facts that the members read and that parsing does not give, sorted
}

// Bands are the scores at which a verdict begins: allow below Review, block from Block on (spec section 6).
type Bands struct {
	Review int `json:"review"`
	Block  int `json:"block"`
}

// NewLineup returns a lineup with its members sorted out by entity type.
func NewLineup(revision int64, bias float64, bands Bands, members []Member) *Lineup {
	l := &Lineup{
		Revision: revision, Bias: bias, Bands: bands, Members: members,
		byType: map[entity.Type][]int{}, lookups: map[entity.Type][]string{},
	}
	for i, m := range members {
		members[i].readsReputation = slices.ContainsFunc(m.Facts, isReputation)
		for _, t := range m.Entities {
			l.byType[t] = append(l.byType[t], i)
			l.lookups[t] = append(l.lookups[t], slices.DeleteFunc(slices.Clone(m.Facts), parsed)...)
		}
	}
	for t, facts := range l.lookups {
		slices.Sort(facts)
		l.lookups[t] = slices.Compact(facts)
	}
	return l
}

// parsed says whether a fact needs no lookup.
func parsed(fact string) bool {
	group, _, _ := strings.Cut(fact, ".")
	return group == "entity" || group == "config" || slices.Contains(entity.Types(), entity.Type(group))
}

// isReputation says whether a fact is what others said of an entity: the reputation graph, imported lists, likeness to
// what is on them.
func isReputation(fact string) bool {
	group, _, _ := strings.Cut(fact, ".")
	return group == "graph" || group == "feed" || group == "similar"
}

// Live is the lineup in force. Checks hold it while they run, so that a swap never changes a check under way and the
// layers of a lineup that was swapped out can be closed once the last check has left it.
type Live struct{ current atomic.Pointer[LineupRef] }

// LineupRef is a lineup that somebody uses; it must be released once.
type LineupRef struct {
	*Lineup
	refs    atomic.Int64 // the holder of the Live counts as one
	drained chan struct{}
}

// Acquire returns the lineup in force, or nil when there is none yet.
func (l *Live) Acquire() *LineupRef {
	for {
		// Between reading the pointer and holding the lineup, it may have been swapped out and have drained.
		if h := l.current.Load(); h == nil || h.retain() {
			return h
		}
	}
}

// retain counts one more user, unless the lineup has drained: that is for ever.
func (h *LineupRef) retain() bool {
	for {
		n := h.refs.Load()
		if n <= 0 {
			return false
		}
		if h.refs.CompareAndSwap(n, n+1) {
			return true
		}
	}
}

// Release gives the lineup back.
func (h *LineupRef) Release() {
	if h.refs.Add(-1) == 0 {
		close(h.drained)
	}
}

// Swap puts next in force. The returned channel is closed when no check uses the previous lineup any more; it is nil
// when there was none. A nil next takes the last lineup out of force.
func (l *Live) Swap(next *Lineup) (drained <-chan struct{}) {
	var held *LineupRef
	if next != nil {
		held = &LineupRef{Lineup: next, drained: make(chan struct{})}
		held.refs.Store(1)
	}
	old := l.current.Swap(held)
	if old == nil {
		return nil
	}
	old.Release()
	return old.drained
}
