package check

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"assay/host/entity"
)

// Layer is a scoring layer that is ready to run. Implementations are safe for concurrent use, respect their own budget,
// never panic, and return the same result or the same *Failure for the same input, whatever other calls did. Any other
// error means that the host could not complete the call, for example before the context's deadline.
type Layer interface {
	Score(ctx context.Context, in Input) (Result, error)
}

// Input is what a layer can read: the facts about the entity, and the lineup's settings for the layer.
type Input struct {
	Entity   entity.Facts      // from parsing
	LookedUp entity.Facts      // from the Collector
	Config   map[string]string // by name without the prefix "config."
}

// Get returns the value of the named fact or setting ("config.NAME") and whether it is known.
func (f Input) Get(name string) (string, bool) {
	if len(name) > len(configPrefix) && name[:len(configPrefix)] == configPrefix {
		value, ok := f.Config[name[len(configPrefix):]]
		return value, ok
	}
	value, ok := f.Entity[name]
	if !ok {
		value, ok = f.LookedUp[name]
	}
	return value, ok
}

const configPrefix = "config."

// Result is the result of a layer's call.
type Result struct {
	Abstained bool
	Score     int // the sum of the signals' points, limited to the layer's range; negative if the layer clears
	Signals   []Signal
	Threat    string // one of sdk.Threats, or ""
	Fuel      int64  // consumed, about one unit per instruction; the same on every machine for the same input
}

// Signal is one finding of a layer.
type Signal struct {
	Points int    `json:"points"`           // -100 to 100
	Code   string `json:"code"`             // group:kind:detail
	Text   string `json:"text"`             // a sentence for people
	Threat string `json:"threat,omitempty"` // the category that the signal is evidence for
	// YieldsTo has codes, or their prefixes, of signals that this one would contradict, see registry.SignalText.
	YieldsTo []string `json:"-"`
}

// Codes returns the distinct codes of signals.
func Codes(signals []Signal) (codes []string) {
	for _, s := range signals {
		if !slices.Contains(codes, s.Code) {
			codes = append(codes, s.Code)
		}
	}
	return codes
}

// Member is a layer with its weight and settings in a lineup.
type Member struct {
	Name     string
	Version  string
	Weight   ByType // what a score of 100 adds to the fused log-odds; not negative
	Range    Range  // of the layer's score in this lineup
	Shadow   bool   // the layer runs after the answer and does not count
	Required bool   // if the layer fails and could have raised the verdict, the verdict is at least review
	Entities []entity.Type
	Facts    []string // the facts that the layer declares to read
	Config   map[string]string
	Layer    Layer
	// Recipe identifies what determines the layer's result besides the facts: its code, budget and settings, not its
	// weight. Layers with the same recipe have the same result for the same facts. Empty: unknown.
	Recipe string

	readsReputation bool // see Outcome
}

// ByType is a number for each entity type.
type ByType map[entity.Type]float64

// String returns the number if it is the same for all types, or a text such as "domain -4.2, email -4".
func (b ByType) String() string {
	var parts []string
	same := true
	for _, t := range entity.Types() {
		same = same && b[t] == b[entity.Domain]
		parts = append(parts, fmt.Sprint(t, " ", b[t]))
	}
	if same {
		return fmt.Sprint(b[entity.Domain])
	}
	return strings.Join(parts, ", ")
}

// Range is the lowest and the highest score of a layer: -100 to 0, and 0 to 100.
type Range [2]int

// Lineup is one revision of the layers and weights that score. It is immutable, and a check uses one lineup from
// beginning to end.
type Lineup struct {
	Revision int64
	Bias     ByType // the fused log-odds if every layer scores 0
	Bands    Bands
	Members  []Member

	// Canary, if not nil, scores for a share of the accounts. It is set before the lineup is put in force.
	Canary *Canary

	byType  map[entity.Type][]int    // indices into Members
	lookups map[entity.Type][]string // facts that members read and parsing does not supply, sorted
	terms   map[entity.Type]*Terms
	// The same for shadow layers. shadowLookups leaves out the facts in lookups.
	shadow        map[entity.Type][]int
	shadowLookups map[entity.Type][]string
}

// Terms describes how a lineup scores one entity type, without the layers' code, so it can outlive the lineup.
type Terms struct {
	Bias    float64
	Bands   Bands
	Layers  []Term
	Lookups []string // the facts that were looked up, sorted
}

// Term is a layer of Terms.
type Term struct {
	Name   string
	Weight float64
	Recipe string // of the Member
	// Lookups are the facts that the layer reads and parsing does not supply.
	Lookups []string
}

// Canary is a lineup that scores for a share of the accounts, always the same ones.
type Canary struct {
	Lineup  *Lineup
	Percent int     // of the accounts
	Seed    []byte  // decides which accounts
	Limit   float64 // the share of its verdicts that may differ from the other lineup's before it is withdrawn
	Began   int64   // distinguishes it from an earlier canary with the same lineup
}

// takes reports whether the canary scores for an account. It never does without an account ("").
func (c *Canary) takes(account string) bool {
	if account == "" {
		return false
	}
	h := sha256.Sum256(append(slices.Clone(c.Seed), account...))
	return binary.BigEndian.Uint64(h[:])%100 < uint64(c.Percent)
}

// For returns the lineup that scores for an account: the canary or l itself.
func (l *Lineup) For(account string) *Lineup {
	if l.Canary != nil && l.Canary.takes(account) {
		return l.Canary.Lineup
	}
	return l
}

// Bands holds the scores at which the verdicts begin: allow below Review, block from Block on (contract section 2.2).
type Bands struct {
	Review int `json:"review"`
	Block  int `json:"block"`
}

// NewLineup returns a lineup of the given members, which it must not share with another lineup.
func NewLineup(revision int64, bias ByType, bands Bands, members []Member) *Lineup {
	l := &Lineup{
		Revision: revision, Bias: bias, Bands: bands, Members: members,
		byType: map[entity.Type][]int{}, lookups: map[entity.Type][]string{}, terms: map[entity.Type]*Terms{},
		shadow: map[entity.Type][]int{}, shadowLookups: map[entity.Type][]string{},
	}
	for i, m := range members {
		members[i].readsReputation = slices.ContainsFunc(m.Facts, isReputation)
		indices, lookups := l.byType, l.lookups
		if m.Shadow {
			indices, lookups = l.shadow, l.shadowLookups
		}
		for _, t := range m.Entities {
			indices[t] = append(indices[t], i)
			lookups[t] = append(lookups[t], m.Lookups()...)
		}
	}
	for _, t := range entity.Types() {
		l.lookups[t] = sortedSet(l.lookups[t])
		l.shadowLookups[t] = slices.DeleteFunc(sortedSet(l.shadowLookups[t]), func(fact string) bool {
			_, found := slices.BinarySearch(l.lookups[t], fact)
			return found
		})
	}
	for t, indices := range l.byType {
		terms := &Terms{Bias: bias[t], Bands: bands, Lookups: l.lookups[t]}
		for _, i := range indices {
			m := &members[i]
			terms.Layers = append(terms.Layers, Term{m.Name, m.Weight[t], m.Recipe, m.Lookups()})
		}
		l.terms[t] = terms
	}
	return l
}

// Scoring returns the layers that score entities of a type, in the order in which they run.
func (l *Lineup) Scoring(t entity.Type) []*Member {
	members := make([]*Member, len(l.byType[t]))
	for i, j := range l.byType[t] {
		members[i] = &l.Members[j]
	}
	return members
}

// Terms returns how the lineup scores entities of a type, or nil if no layer does.
func (l *Lineup) Terms(t entity.Type) *Terms { return l.terms[t] }

// together returns the outcomes of the layers that score entities of a type and of those in shadow, in the order in
// which they would run if all of them scored: the order of its terms can change a sum.
func (l *Lineup) together(t entity.Type, live, shadow []Outcome) []Outcome {
	all := make([]Outcome, 0, len(live)+len(shadow))
	before := l.shadow[t]
	for i, j := range l.byType[t] {
		for len(before) > 0 && before[0] < j {
			all, before, shadow = append(all, shadow[0]), before[1:], shadow[1:]
		}
		all = append(all, live[i])
	}
	return append(all, shadow...)
}

// Lookups returns the facts that the layer reads and parsing does not supply.
func (m *Member) Lookups() []string { return slices.DeleteFunc(slices.Clone(m.Facts), isParsed) }

func sortedSet(names []string) []string {
	slices.Sort(names)
	return slices.Compact(names)
}

// isParsed reports whether a fact comes from parsing or the lineup, so that no lookup is needed.
func isParsed(fact string) bool {
	group, _, _ := strings.Cut(fact, ".")
	return group == "entity" || group == "config" || slices.Contains(entity.Types(), entity.Type(group))
}

// isReputation reports whether a fact repeats the judgement of others: the reputation graph, imported lists, or
// similarity to their entries.
func isReputation(fact string) bool {
	group, _, _ := strings.Cut(fact, ".")
	return group == "graph" || group == "history" || group == "feed" || group == "similar"
}

// Live holds the lineup in force and counts the checks that use it. A swap does not affect running checks, and the
// layers of the previous lineup can be closed once its last check has ended.
type Live struct{ current atomic.Pointer[LineupRef] }

// LineupRef is a counted reference to a lineup. It must be released exactly once.
type LineupRef struct {
	*Lineup
	refs    atomic.Int64 // one of them is Live's own, while the lineup is in force
	drained chan struct{}
}

// Acquire returns a reference to the lineup in force, or nil if there is none.
func (l *Live) Acquire() *LineupRef {
	for {
		// The lineup may be swapped out and drain between Load and retain.
		if r := l.current.Load(); r == nil || r.retain() {
			return r
		}
	}
}

// retain adds a reference. It returns false if the lineup has drained, which is permanent.
func (r *LineupRef) retain() bool {
	for {
		n := r.refs.Load()
		if n <= 0 {
			return false
		}
		if r.refs.CompareAndSwap(n, n+1) {
			return true
		}
	}
}

// Release drops the reference.
func (r *LineupRef) Release() {
	if r.refs.Add(-1) == 0 {
		close(r.drained)
	}
}

// Swap puts next in force; nil leaves no lineup in force. The returned channel is closed when no check uses the
// previous lineup. It is nil if there was none.
func (l *Live) Swap(next *Lineup) (drained <-chan struct{}) {
	var ref *LineupRef
	if next != nil {
		ref = &LineupRef{Lineup: next, drained: make(chan struct{})}
		ref.refs.Store(1)
	}
	old := l.current.Swap(ref)
	if old == nil {
		return nil
	}
	old.Release()
	return old.drained
}

// Run calls the layer about an entity of the given type; it ignores the settings of in. The failure is nil if the layer
// returned a result. The error is an *UnavailableError if the layer has no result for a reason other than its input.
func (m *Member) Run(ctx context.Context, t entity.Type, in Input) (Outcome, *Failure, error) {
	o := m.Outcome(t)
	began := time.Now()
	in.Config = m.Config
	result, err := m.Layer.Score(ctx, in)
	o.Micros = time.Since(began).Microseconds()
	if err != nil {
		var failure *Failure
		if !errors.As(err, &failure) {
			return o, nil, &UnavailableError{Part: "layer " + m.Name + "@" + m.Version, Err: err}
		}
		o.Failure = failure.Reason
		return o, failure, nil
	}
	o.Fuel = result.Fuel
	if result.Abstained {
		o.Abstained = true // signals and threat do not count
		return o, nil, nil
	}
	o.Score, o.Signals, o.Threat = max(result.Score, m.Range[0]), result.Signals, result.Threat
	o.Contribution = o.Weight * float64(o.Score) / 100
	return o, nil, nil
}

// Outcome returns an outcome of the layer without a result.
func (m *Member) Outcome(t entity.Type) Outcome {
	return Outcome{
		Layer: m.Name, Version: m.Version, Weight: m.Weight[t], Range: m.Range, Required: m.Required,
		ReadsReputation: m.readsReputation,
	}
}
