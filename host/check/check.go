// Package check scores requests: it parses the entity, collects its facts, runs the layers of one lineup, fuses their
// scores and has the ledger record the decision. Lookups, layers and storage are interfaces here; their implementations
// live in facts, sandbox and store.
package check

import (
	"context"
	"errors"
	"time"

	"github.com/oklog/ulid/v2"

	"assay/host/access/admission"
	"assay/host/entity"
)

// Request is a request to score one entity.
type Request struct {
	Caller  Caller
	Fields  []Field // in any order; the first in the order of entity.Types is scored, the others are linked to it
	Country string  // region.country as sent; "" means EU
	Once    *Once   // nil: every request is a new check

	Warnings []Warning // about fields that were left out before
}

// Field is one scorable field of a request.
type Field struct {
	Type  entity.Type
	Value string
}

// Warning names a field of a request that was left out, and says why. The check does not depend on it.
type Warning struct {
	Field   string `json:"field"`
	Message string `json:"message"` // for people
}

// Decision is the result of a check.
type Decision struct {
	Fused
	Ref      string // unique; identifies the check in the audit log
	Type     entity.Type
	Query    string    // the scored value as it was sent
	At       time.Time // UTC, whole milliseconds
	Revision int64     // of the lineup
	Layers   []Outcome
	Terms    *Terms    // of the lineup that decided, for the layers in the same order
	Override *Override // decided the verdict instead of the layers; nil: none
	Warnings []Warning // for the caller; not recorded
}

// TimeFormat is the layout of all times that clients see and the audit log hashes: ISO 8601 in UTC with milliseconds
// (contract section 2).
const TimeFormat = "2006-01-02T15:04:05.000Z"

// Record is a decision with everything that the ledger stores about it.
type Record struct {
	Caller   Caller
	Entity   entity.Entity
	Linked   []entity.Entity // the request's other entities, for the reputation graph
	LookedUp entity.Facts    // facts about Entity that the Collector returned, for the reputation graph
	Decision *Decision
	Once     *Once // of the call, the same for all its records; nil: none
	// Pseudonym is the name of Entity in the audit log. The ledger sets it when it records the decision.
	Pseudonym []byte
}

// Collector looks up the facts that need I/O: DNS, registration, reputation. A check does all its I/O there, before any
// layer runs.
type Collector interface {
	// Collect returns the wanted facts about e. wanted is sorted. Facts about the caller's own checks concern those of
	// account; without an account there are none. Facts of the host's own database are complete, or Collect returns an
	// *UnavailableError. If a third party does not respond in time, its facts are absent, and unanswered lists its
	// source, which is the first part of the facts' names (dns, rdap, ...). If it gives false answers, UntrustedSource
	// precedes the source. Collect makes only the lookups that the wanted facts need, and returns no later than ctx
	// ends. Limited lookups count for admission.Holder(ctx) or, if that is empty, for account.
	Collect(ctx context.Context, account string, e entity.Entity, wanted []string) (facts entity.Facts,
		unanswered []string, err error)
}

// UntrustedSource is the prefix of sources whose facts are absent because a third party gives false answers.
const UntrustedSource = "untrusted:"

// Ledger makes decisions durable.
type Ledger interface {
	// Append commits the records of one caller, all or none: their use of the quota, their links in the audit chain and
	// their webhook events. It returns ErrUnauthorized if the key is no longer valid, a *QuotaError if the month's
	// quota does not cover all records, ErrRevision if their lineup was replaced too long ago, ErrAnswered if a call
	// with their idempotency key may have been recorded before, and an *UnavailableError if it cannot store them now;
	// nothing is stored in these cases. After any other error the records may or may not have been committed. Append
	// sets the pseudonyms of the records.
	Append(ctx context.Context, records ...Record) error
}

// Memory remembers recorded checks for a while, to score them again with another lineup.
type Memory interface {
	// Remember is called after records are committed and before they are answered. It must neither block nor change
	// what the records refer to.
	Remember(records []Record)
}

// Trial judges a canary by its checks.
type Trial interface {
	// Decided is called after checks scored by a canary are recorded and before they are answered. It must not change
	// what the records refer to, and must not block.
	Decided(records []Record)
}

// Observer receives events for metrics and logs. Its methods must not block.
type Observer interface {
	// LayerRan is called after each call of a layer. failure is nil unless the layer failed.
	LayerRan(t entity.Type, o Outcome, failure *Failure)
	// CheckDone is called after each recorded check with the time it took.
	CheckDone(d *Decision, took time.Duration)
}

// Checker runs checks. Its fields are set once, before use.
type Checker struct {
	Live      *Live
	Collector Collector // nil: no lookups
	Ledger    Ledger
	Observer  Observer
	Memory    Memory    // nil: nothing is remembered
	Overrides Overrides // nil: none; Rescore never uses them
	Now       func() time.Time
	Gate      *admission.Gate // nil: all checks are accepted, and judged at once
	Shadow    *Shadow         // nil: shadow layers do not run
	Trial     Trial           // nil: canaries are not judged
	Deadline  time.Duration   // for the lookups and layers of one check; a check that takes longer is refused
	// BatchDeadline is the same for a batch, whose checks wait for each other; 0: Deadline.
	BatchDeadline time.Duration

	spent spentQuotas
}

// ErrNoLineup means that no lineup is in force yet.
var ErrNoLineup = errors.New("no lineup is in force")

// Check scores the request's entity and records the decision. It returns a NoFieldError, *entity.InvalidError,
// *PlanError, ErrUnauthorized, ErrAnswered, *QuotaError, admission.ErrBusy, admission.ErrShare or *UnavailableError;
// any other failure is an *InternalError.
func (c *Checker) Check(ctx context.Context, req Request) (*Decision, error) {
	p, err := parseCovered(req)
	if err != nil {
		return nil, err
	}
	if req.Caller.Limits.Test {
		return answerTest(req.Caller, p, c.Now())
	}
	if err := c.Spent(req.Caller); err != nil {
		return nil, err
	}
	began := time.Now()
	records, err := c.recorded(ctx, req.Caller, 1, func(l *Lineup, visit *admission.Visit) ([]Record, error) {
		var err error
		if p.override, err = c.override(p); err != nil {
			return nil, err
		}
		d, lookedUp, err := c.score(ctx, l, visit, p)
		if err != nil {
			return nil, err
		}
		records := []Record{p.record(req.Caller, lookedUp, d)}
		req.Once.keep([]Answer{{Decision: d}}, records)
		return records, nil
	})
	if err != nil {
		return nil, err
	}
	d := records[0].Decision
	c.Observer.CheckDone(d, time.Since(began))
	return d, nil
}

// recorded scores n checks of a caller with the lineup in force, records them and returns the records. If the ledger
// refuses them because another lineup is in force, as it does after the host was paused, it scores them once more.
func (c *Checker) recorded(
	ctx context.Context, caller Caller, n int, score func(*Lineup, *admission.Visit) ([]Record, error),
) ([]Record, error) {
	ref := c.Live.Acquire()
	if ref == nil {
		return nil, &InternalError{Ref: NewRef(), Err: ErrNoLineup}
	}
	defer func() { ref.Release() }()
	visit, err := c.Gate.Enter(caller.Share(), n)
	if err != nil {
		return nil, err
	}
	defer visit.Close()
	lineup := ref.For(caller.Account)
	attempt := func() ([]Record, error) {
		records, err := score(lineup, visit)
		if err == nil {
			err = c.record(ctx, records...)
		}
		return records, err
	}
	records, err := attempt()
	if errors.Is(err, ErrRevision) {
		if next := c.Live.Acquire(); next != nil {
			ref.Release()
			ref = next
		}
		if refused := lineup.Revision; ref.For(caller.Account).Revision != refused {
			lineup = ref.For(caller.Account)
			records, err = attempt()
		}
	}
	if errors.Is(err, ErrRevision) {
		err = &UnavailableError{Part: "lineup", Err: err}
	}
	if err != nil {
		return nil, err
	}
	if c.Trial != nil && lineup != ref.Lineup {
		c.Trial.Decided(records)
	}
	for _, r := range records {
		c.Shadow.offer(shadowed{ref, lineup, r})
	}
	return records, nil
}

// record appends decisions of one caller to the ledger. Unexpected errors become an *InternalError.
func (c *Checker) record(ctx context.Context, records ...Record) error {
	err := c.Ledger.Append(ctx, records...)
	if err == nil {
		if c.Memory != nil {
			c.Memory.Remember(records)
		}
		return nil
	}
	var quota *QuotaError
	switch {
	case errors.As(err, &quota):
		c.spent.remember(records[0].Caller, quota, c.Now())
		return err
	case errors.Is(err, ErrUnauthorized), errors.Is(err, ErrRevision), errors.Is(err, ErrAnswered),
		errors.As(err, new(*UnavailableError)):
		return err
	}
	return &InternalError{Ref: records[0].Decision.Ref, Err: err}
}

// Explain scores an entity without recording the decision or counting it against a quota. It uses only the overrides
// for all accounts.
func (c *Checker) Explain(ctx context.Context, f Field, country string) (*Decision, error) {
	p, err := parse(Request{Fields: []Field{f}, Country: country})
	if err != nil {
		return nil, err
	}
	lineup := c.Live.Acquire()
	if lineup == nil {
		return nil, &InternalError{Ref: NewRef(), Err: ErrNoLineup}
	}
	defer lineup.Release()
	if p.override, err = c.override(p); err != nil {
		return nil, err
	}
	d, _, err := c.score(ctx, lineup.Lineup, nil, p)
	return d, err
}

// Rescore scores an entity for a caller as Check would, without recording the decision or counting it against a
// quota, and without overrides. It returns the decision with the facts that were looked up. Its errors are those of
// Check.
func (c *Checker) Rescore(ctx context.Context, caller Caller, e entity.Entity) (*Record, error) {
	lineup := c.Live.Acquire()
	if lineup == nil {
		return nil, &InternalError{Ref: NewRef(), Err: ErrNoLineup}
	}
	defer lineup.Release()
	visit, err := c.Gate.Enter(caller.Share(), 1)
	if err != nil {
		return nil, err
	}
	defer visit.Close()
	p := parsed{account: caller.Account, share: caller.Share(), scored: e}
	d, lookedUp, err := c.score(ctx, lineup.For(caller.Account), visit, p)
	if err != nil {
		return nil, err
	}
	r := p.record(caller, lookedUp, d)
	return &r, nil
}

// score looks up the facts about the scored entity and runs the lineup's layers. It returns an *UnavailableError if it
// cannot score the entity in full within the deadline.
func (c *Checker) score(ctx context.Context, l *Lineup, visit *admission.Visit, p parsed) (
	*Decision, entity.Facts, error) {
	ctx, cancel := context.WithTimeout(ctx, c.Deadline)
	defer cancel()
	lookedUp, unanswered, err := c.collect(ctx, l, p)
	if err != nil {
		return nil, nil, err
	}
	d, err := c.judge(ctx, l, visit, p, lookedUp, unanswered)
	return d, lookedUp, err
}

// judge calls decide when it is the check's turn.
func (c *Checker) judge(ctx context.Context, l *Lineup, visit *admission.Visit, p parsed, lookedUp entity.Facts,
	unanswered []string) (d *Decision, err error) {
	late := visit.Judge(ctx, func() { d, err = c.decide(ctx, l, p, lookedUp, unanswered) })
	if late != nil {
		return nil, &UnavailableError{Part: "processor", Err: late}
	}
	return d, err
}

// collect looks up the facts about the scored entity that the lineup's layers read.
func (c *Checker) collect(ctx context.Context, l *Lineup, p parsed) (
	facts entity.Facts, unanswered []string, err error) {
	wanted := l.lookups[p.scored.Type]
	if c.Collector == nil || len(wanted) == 0 {
		return nil, nil, nil
	}
	return c.Collector.Collect(admission.WithHolder(ctx, p.share), p.account, p.scored, wanted)
}

// decide runs the lineup's layers on the scored entity and fuses their results. Its error is an *UnavailableError.
func (c *Checker) decide(ctx context.Context, l *Lineup, p parsed, lookedUp entity.Facts, unanswered []string) (
	*Decision, error) {
	e := p.scored
	members := l.byType[e.Type]
	outcomes := make([]Outcome, 0, len(members))
	for _, i := range members {
		o, failure, err := l.Members[i].Run(ctx, e.Type, Input{Entity: e.Facts, LookedUp: lookedUp})
		if err != nil {
			return nil, err
		}
		c.Observer.LayerRan(e.Type, o, failure)
		outcomes = append(outcomes, o)
	}
	fused := Fuse(l.Bias[e.Type], l.Bands, outcomes)
	var override *Override
	if p.override != nil {
		override = p.override.over(fused)
		fused = override.hold(fused, l.Bands, outcomes)
	}
	fused.Signals = append(fused.Signals, UnansweredSignals(unanswered)...)
	return &Decision{
		Fused:    fused,
		Ref:      NewRef(),
		Type:     e.Type,
		Query:    p.query,
		At:       c.Now().UTC().Truncate(time.Millisecond),
		Revision: l.Revision,
		Layers:   outcomes,
		Terms:    l.terms[e.Type],
		Override: override,
		Warnings: p.warnings,
	}, nil
}

// NewRef returns a new check reference: "chk_" and a ULID, so that references sort by time.
func NewRef() string {
	const prefix = "chk_"
	ref := [len(prefix) + ulid.EncodedSize]byte([]byte(prefix + "00000000000000000000000000"))
	_ = ulid.Make().MarshalTextTo(ref[len(prefix):]) // fails only if the slice is too short
	return string(ref[:])
}
