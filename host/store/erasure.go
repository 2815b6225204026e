package store

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/oklog/ulid/v2"
	"github.com/uptrace/bun/dialect/pgdialect"

	"assay/host/audit"
	"assay/host/check"
	"assay/host/customer/privacy"
	"assay/host/entity"
)

const (
	// eraseBatch is the maximum number of audit records that one call of audit_erase erases, because the chain is
	// locked during part of it. Larger erasures take several calls, each with its own record in the chain, and can be
	// interrupted between them. An erasure within a request takes one.
	eraseBatch = privacy.AtOnce
	// eraseRead is the maximum number of records that an erasure reads at once. Each read looks at all of the subject's
	// records.
	eraseRead = 5000
	// forgetLinks is the maximum number of links in the reputation graph that are deleted at once.
	forgetLinks = 200
)

// Erase erases an account's data about a subject: the content of its audit records, its webhook events, feedback and
// reviews, its exports, its sightings and links in the reputation graph, and its overrides of the value. A concurrent
// check is either erased completely or recorded completely. Erasing a subject again has no further effect and returns
// the earlier erasures. It fails with check.ErrUnauthorized, with an *entity.InvalidError, with
// privacy.ErrUnknownSubject if the request names a reference instead of an entity, with a privacy.LargeError before it
// erases anything, or with a *check.DoubtError if some of the data may be erased.
func (s *Store) Erase(ctx context.Context, c check.Caller, selector privacy.Selector) (*privacy.ErasureResult, error) {
	e := &erasing{caller: c, selector: selector, most: privacy.AtOnce}
	if c.Key == operatorKey { // whose command may take long
		e.most = math.MaxInt
	}
	total := &privacy.ErasureResult{}
	for more := true; more; {
		batch, err := s.eraseStep(ctx, e)
		if e.overrides > 0 && errors.Is(err, privacy.ErrUnknownSubject) { // there were only overrides
			batch, err = erasureBatch{}, nil
			batch.Subject, batch.Erasures = e.p.reference(), e.p.erasures
		}
		if err != nil {
			err = fmt.Errorf("erasing subject: %w", err)
			if e.started && isOutage(err) { // an earlier step has committed
				return nil, &check.DoubtError{Err: err}
			}
			return nil, withOutage(err)
		}
		total.Subject, total.Erasures = batch.Subject, batch.Erasures
		total.Checks += batch.Checks
		total.Events += batch.Events
		total.Sightings += batch.Sightings
		total.Links += batch.Links
		more = batch.more
	}
	total.Overrides = e.overrides
	return total, nil
}

// erasing is the state of an erasure between two steps.
type erasing struct {
	caller   check.Caller
	selector privacy.Selector
	most     int    // with more records, it fails with a privacy.LargeError before it erases anything; 0: no limit
	node     []byte // of the subject, if it was known before or an earlier read found it
	started  bool   // an earlier step erased something
	partial  bool   // the last step erased links, and more may remain

	resolved  bool // the requester and the subject are known
	r         requester
	p         subject
	overrides int        // that were removed
	head      int64      // the last record of the chain before the last read
	rows      []auditRow // not erased yet, as of the last read
	unread    bool       // there may be more of them
}

// erasureBatch is the result of one step of an erasure.
type erasureBatch struct {
	privacy.ErasureResult
	// Records remain. Their contributions to the graph are gone, as are those of checks recorded since the last read,
	// so the erasure must go on. The last step erases all records.
	more bool
}

// eraseStep takes one step of an erasure, and retries it after a conflict with another host.
func (s *Store) eraseStep(ctx context.Context, e *erasing) (batch erasureBatch, err error) {
	err = again(func() (err error) {
		batch, err = s.tryErase(ctx, e)
		if err != nil {
			e.rows, e.resolved = nil, false // read again
		}
		return err
	})
	return batch, err
}

// tryErase erases up to eraseBatch records of a subject, or up to forgetLinks of its links if there are more.
func (s *Store) tryErase(ctx context.Context, e *erasing) (batch erasureBatch, err error) {
	if len(e.rows) == 0 {
		if err := s.readErasable(ctx, e); err != nil {
			return batch, err
		}
	}
	batch.Subject, batch.Erasures = e.p.reference(), e.p.erasures
	switch {
	case e.p.pseudonym == nil, len(e.rows) == 0 && e.started && !e.partial:
		return batch, nil
	case len(e.rows) > 0 && e.p.node == nil:
		return batch, errNodeUnknown
	}
	rows := e.rows[:min(len(e.rows), eraseBatch)]
	batch.more = len(rows) < len(e.rows) || e.unread
	complete := &e.head
	if batch.more {
		complete = nil
	}
	done, deleted, err := s.eraseRows(ctx, e.r, e.p, rows, complete)
	if err != nil {
		return batch, err
	}
	e.partial = deleted.Partial
	batch.Events, batch.Sightings, batch.Links = deleted.Events, deleted.Sightings, deleted.Links
	switch {
	case deleted.Partial:
		e.started, batch.more = true, true
	case !deleted.Recorded && len(e.p.erasures) == 0 && e.selector.Entity == nil && !e.started:
		return batch, privacy.ErrUnknownSubject
	case deleted.Recorded:
		e.started, e.rows = true, e.rows[len(rows):]
		e.p.erasures = append(e.p.erasures, done)
		batch.Checks, batch.Erasures = done.Checks, e.p.erasures
		if e.selector.Entity == nil {
			e.selector = privacy.Selector{Subject: *batch.Subject} // the check that named it is erased by now
		}
	}
	return batch, nil
}

// readErasable reads up to eraseRead records of a subject. At first it also finds the requester and the subject, and
// removes the account's overrides of it, while there are still records from which to find the subject.
func (s *Store) readErasable(ctx context.Context, e *erasing) (err error) {
	if !e.resolved {
		if e.r, err = s.findRequester(ctx, s.db, e.caller); err != nil {
			return err
		}
		if e.p, err = s.nameSubject(ctx, s.db, e.r, e.selector); err != nil {
			return err
		}
	}
	if e.p.pseudonym == nil {
		return nil
	}
	err = s.db.NewRaw("SELECT max(seq) FROM audit_heads WHERE chain = ?", e.r.Chain).Scan(ctx, &e.head)
	if err != nil {
		return err
	}
	err = s.db.NewSelect().TableExpr("? AS r", e.r.ofSubject(e.p.pseudonym)).
		Column("seq", "recorded_at", "kind", "ref", "leaf").Where("account_id = ?", e.r.AccountID).
		Order("seq").Limit(eraseRead).Scan(ctx, &e.rows)
	e.unread = len(e.rows) == eraseRead
	if err != nil || e.resolved {
		return err
	}
	if len(e.rows) > e.most && e.most > 0 && !e.started {
		return privacy.LargeError{}
	}
	// Read after the records, to include an erasure that was faster.
	if err := s.completeSubject(ctx, s.db, e.r, &e.p); err != nil {
		return err
	}
	if e.p.node == nil {
		e.p.node = e.node
	}
	e.node, e.resolved = e.p.node, true
	if e.p.waiting {
		if err := s.CatchUp(ctx); err != nil { // only for the counts: contributions not applied are forgotten too
			s.log.Warn("erasing a subject before the reputation graph is complete", "error", err)
		}
	}
	if e.p.overridden {
		n, err := s.eraseOverrides(ctx, e.r, e.p)
		e.overrides += n
		return err
	}
	return nil
}

// errNodeUnknown prevents a partial erasure: no check of the subject leads to its node in the reputation graph, because
// they were altered.
var errNodeUnknown = &entity.InvalidError{Field: "subject",
	Reason: "has no check that leads to the reputation graph; " +
		"send the value as domain, email, phone or iban instead"}

// deletion counts the rows other than records that audit_erase deleted.
type deletion struct {
	Events, Sightings, Links int
	Recorded                 bool // there was anything to erase
	Partial                  bool // only links were deleted, because the node has many
}

// eraseRows erases a subject's rows, its exports and its node in the reputation graph, and appends a record of that to
// the chain. complete, if not nil, is the record up to which rows has all of the subject's; later ones are a conflict.
// Every host is notified, so that it forgets the subject's checks.
func (s *Store) eraseRows(ctx context.Context, r requester, p subject, rows []auditRow, complete *int64) (
	done privacy.Erasure, deleted deletion, err error) {
	at := s.now().UTC().Truncate(time.Millisecond)
	done = privacy.Erasure{Ref: "erasure_" + ulid.Make().String(), Timestamp: at.Format(check.TimeFormat)}
	seqs, times, refs := make([]int64, len(rows)), make([]time.Time, len(rows)), make([]string, len(rows))
	leaves, tombstones := make([][]byte, len(rows)), make([][]byte, len(rows))
	signed := make([]audit.Erased, len(rows))
	for i, row := range rows {
		if len(row.Leaf) != len(audit.Hash{}) {
			return done, deleted, &audit.BreakError{Chain: r.Chain, Seq: row.Seq,
				Reason: "its leaf is not 32 bytes long"}
		}
		seqs[i], times[i], refs[i], leaves[i] = row.Seq, row.RecordedAt, row.Ref, row.Leaf
		tombstones[i] = s.tombstone(r, "ref", row.Ref)
		signed[i] = audit.Erased{Seq: row.Seq, Leaf: audit.Hash(row.Leaf)}
		if row.Kind == string(audit.Check) {
			done.Checks++
		}
	}
	digest, err := s.signer.SignErasure(r.Chain, signed)
	if err != nil {
		return done, deleted, err
	}
	record := audit.Record{Kind: audit.Erasure, At: done.Timestamp, Ref: done.Ref, Account: r.AccountID, Key: r.KeyID,
		Digest: digest}
	deleted, err = once[deletion](ctx, s,
		`SELECT * FROM audit_erase(?chain, ?account, ?key, ?now, ?pseudonym, ?node, ?most, ?subject, ?seqs, ?times,
		?refs, ?leaves, ?tombstones, ?checks, ?complete, ?entry)`, named{
			"chain": r.Chain, "account": r.AccountID, "key": r.KeyID, "now": s.now(), "pseudonym": p.pseudonym,
			"node": p.node, "most": forgetLinks, "subject": s.tombstone(r, "subject", string(p.pseudonym)),
			"seqs": pgdialect.Array(seqs), "times": pgdialect.Array(times), "refs": pgdialect.Array(refs),
			"leaves":     pgdialect.Array(leaves),
			"tombstones": pgdialect.Array(tombstones), "checks": done.Checks, "complete": complete,
			"entry": entry(record, at),
		})
	return done, deleted, orUnauthorized(err)
}
