// Package check is the product's core: a request becomes an entity, the entity's facts go through every layer of one
// lineup, the layers' scores are fused, and the decision is answered once the ledger holds it.
package check

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strings"
	"time"

	"github.com/oklog/ulid/v2"

	"assay/host/entity"
)

// Request asks for one entity to be scored.
type Request struct {
	Caller  Caller
	Fields  []Field // in any order; the first type of entity.Types among them is scored, the others are linked to it
	Country string  // region.country as written; "" means EU
}

// Field is one scorable field of a request.
type Field struct {
	Type  entity.Type
	Value string
}

// Decision is the answer to a request.
type Decision struct {
	Fused
	Ref      string // unique, and the way into the audit trail
	Type     entity.Type
	Query    string    // the scored value as it was written
	At       time.Time // UTC, whole milliseconds
	Revision int64     // of the lineup that decided
	Layers   []Outcome
}

// TimeFormat is how times are written for clients and hashed for the audit: ISO 8601, UTC, milliseconds (spec 2.2).
const TimeFormat = "2006-01-02T15:04:05.000Z"

// Record is what the ledger keeps of a decision.
type Record struct {
	Caller   Caller
	Entity   entity.Entity
	Linked   []entity.Entity // sent along with it, to be linked in the reputation graph
	LookedUp entity.Facts    // what was looked up of Entity, for the same purpose
	Decision *Decision
}

// Collector looks up what parsing alone cannot know: DNS, registration, reputation. All I/O of a check happens there,
// before any layer runs.
type Collector interface {
	// Collect returns those of the wanted facts that became known before ctx ended, and the sources that were asked and
	// did not answer, each by the first part of its facts' names (dns, rdap, ...). It makes no lookup that no wanted
	// fact needs, returns when ctx ends at the latest, and never fails: what is not known is absent.
	Collect(ctx context.Context, e entity.Entity, wanted []string) (facts entity.Facts, silent []string)
}

// Ledger makes decisions durable.
type Ledger interface {
	// Append takes records of one caller. It returns nil once they, their count against the quota, their places in the
	// audit chain and their events are committed together. It returns ErrUnauthorized when the key has ended, a
	// *QuotaError when the month's quota does not cover all of them, and ErrOverloaded when it cannot take more;
	// nothing is kept then. Any other error leaves it open whether the records were kept, never some of them.
	Append(ctx context.Context, records ...Record) error
}

// Observer is told what happened, for metrics and logs. Its methods must not block.
type Observer interface {
	LayerRan(t entity.Type, o Outcome, lost *Failure)
	CheckDone(d *Decision, took time.Duration)
}

// Checker runs checks. Its fields are set once, before use.
type Checker struct {
	Live          *Live
	Collector     Collector // nil: layers see what parsing knows
	Ledger        Ledger
	Observer      Observer
	Now           func() time.Time
	FactsDeadline time.Duration // for all lookups of one check together
	Deadline      time.Duration // for all layers of one check together
}

// ErrNoLineup means that no lineup is in force yet.
var ErrNoLineup = errors.New("no lineup is in force")

// Check scores the request's entity and records the decision. Errors: NoFieldError, *entity.InvalidError, *PlanError,
// ErrUnauthorized, *QuotaError, ErrOverloaded, else *Failure.
func (c *Checker) Check(ctx context.Context, req Request) (*Decision, error) {
	scored, also, query, err := parse(req)
	if err != nil {
		return nil, err
	}
	if !req.Caller.Plan.Covers(scored.Type) {
		return nil, &PlanError{Plan: req.Caller.Plan.Name, Type: scored.Type}
	}
	began := time.Now()
	lineup := c.Live.Acquire()
	if lineup == nil {
		return nil, &InternalError{Ref: NewRef(), Err: ErrNoLineup}
	}
	defer lineup.Release()
	observed, silent := c.collect(ctx, lineup.Lineup, scored)
	d := c.decide(ctx, lineup.Lineup, scored, query, observed, silent)
	if err := c.record(ctx, Record{Caller: req.Caller, Entity: scored, Linked: also, LookedUp: observed,
		Decision: d}); err != nil {
		return nil, err
	}
	c.Observer.CheckDone(d, time.Since(began))
	return d, nil
}

// record makes decisions of one caller durable. What is not the ledger's to refuse is a *Failure.
func (c *Checker) record(ctx context.Context, records ...Record) error {
	err := c.Ledger.Append(ctx, records...)
	var quota *QuotaError
	if err == nil || errors.Is(err, ErrUnauthorized) || errors.Is(err, ErrOverloaded) || errors.As(err, &quota) {
		return err
	}
	return &InternalError{Ref: records[0].Decision.Ref, Err: err}
}

// Explain scores an entity without a caller: nothing is counted and nothing recorded.
func (c *Checker) Explain(ctx context.Context, f Field, country string) (*Decision, error) {
	scored, _, query, err := parse(Request{Fields: []Field{f}, Country: country})
	if err != nil {
		return nil, err
	}
	lineup := c.Live.Acquire()
	if lineup == nil {
		return nil, &InternalError{Ref: NewRef(), Err: ErrNoLineup}
	}
	defer lineup.Release()
	observed, silent := c.collect(ctx, lineup.Lineup, scored)
	return c.decide(ctx, lineup.Lineup, scored, query, observed, silent), nil
}

// parse reads the request's fields: the one to score, and those that go along with it. A field of white space counts as
// not given.
func parse(req Request) (scored entity.Entity, also []entity.Entity, query string, err error) {
	country, err := entity.Country(req.Country)
	if err != nil {
		return scored, nil, "", err
	}
	found := false
	for _, t := range entity.Types() {
		for _, f := range req.Fields {
			if f.Type != t || strings.TrimSpace(f.Value) == "" {
				continue
			}
			e, err := entity.Parse(t, f.Value, country)
			if err != nil {
				return scored, nil, "", err
			}
			if found {
				also = append(also, e)
				continue
			}
			scored, query, found = e, f.Value, true
		}
	}
	if !found {
		return scored, nil, "", NoFieldError{}
	}
	return scored, also, query, nil
}

// collect looks up what the lineup's layers want to know of e.
func (c *Checker) collect(ctx context.Context, l *Lineup, e entity.Entity) (observed entity.Facts, silent []string) {
	wanted := l.lookups[e.Type]
	if c.Collector == nil || len(wanted) == 0 {
		return nil, nil
	}
	ctx, cancel := context.WithTimeout(ctx, c.FactsDeadline)
	defer cancel()
	return c.Collector.Collect(ctx, e, wanted)
}

// decide runs the lineup's layers over e and fuses what they said.
func (c *Checker) decide(ctx context.Context, l *Lineup, e entity.Entity, query string, observed entity.Facts,
	silent []string) *Decision {
	facts := e.Facts
	if len(observed) > 0 {
		facts = maps.Clone(e.Facts)
		maps.Copy(facts, observed)
	}
	ctx, cancel := context.WithTimeout(ctx, c.Deadline)
	defer cancel()

	members := l.byType[e.Type]
	outcomes := make([]Outcome, 0, len(members))
	for _, i := range members {
		o, lost := run(ctx, &l.Members[i], facts)
		c.Observer.LayerRan(e.Type, o, lost)
		outcomes = append(outcomes, o)
	}
	fused := Fuse(l.Bias, l.Bands, outcomes)
	fused.Signals = append(fused.Signals, unknown(silent)...)
	return &Decision{
		Fused:    fused,
		Ref:      NewRef(),
		Type:     e.Type,
		Query:    query,
		At:       c.Now().UTC().Truncate(time.Millisecond),
		Revision: l.Revision,
		Layers:   outcomes,
	}
}

// unknown says which sources did not answer. Absent facts move no score, but the caller is told.
func unknown(silent []string) []Signal {
	var signals []Signal
	for _, source := range silent {
		signals = append(signals, Signal{
			Code: "host:unknown:" + source,
			Text: fmt.Sprintf("Nothing could be learned from %s in time; the score rests on the rest",
				sourceName(source)),
		})
	}
	return signals
}

// sourceName is what a person calls a source of facts.
func sourceName(source string) string {
	switch source {
	case "dns":
		return "DNS"
	case "rdap":
		return "the domain's registration"
	case "net":
		return "network data"
	case "similar":
		return "known scam patterns"
	case "graph":
		return "the reputation graph"
	case "feed":
		return "threat lists"
	}
	return source
}

// run asks one layer.
func run(ctx context.Context, m *Member, facts entity.Facts) (Outcome, *Failure) {
	o := Outcome{Layer: m.Name, Version: m.Version, Weight: m.Weight, Required: m.Required, ReadsReputation: m.readsReputation}
	began := time.Now()
	read := Input{Entity: facts, Config: m.Config}
	result, err := m.Layer.Score(ctx, read)
	o.Micros = time.Since(began).Microseconds()
	if err != nil {
		var lost *Failure
		if !errors.As(err, &lost) {
			lost = &Failure{Reason: Unavailable, Err: fmt.Errorf("running layer %s: %w", m.Name, err)}
		}
		o.Failure = lost.Reason
		return o, lost.redacted(read)
	}
	o.Fuel = result.Fuel
	if result.Abstained {
		o.Abstained = true // whatever it says besides does not count
		return o, nil
	}
	o.Score, o.Signals, o.Threat = result.Score, result.Signals, result.Threat
	o.Contribution = m.Weight * float64(result.Score) / 100
	return o, nil
}

// NewRef returns a new reference of a check: "chk_" and a ULID, so that references sort by time.
func NewRef() string { return "chk_" + ulid.Make().String() }
