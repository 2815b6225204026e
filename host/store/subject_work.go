package store

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/uptrace/bun"
	"github.com/uptrace/bun/dialect/pgdialect"

	"assay/host/audit"
	"assay/host/check"
	"assay/host/customer/privacy"
	"assay/host/entity"
)

// requestLease is the time after which another host may continue a request whose host has stopped. Each step renews it.
const requestLease = 15 * time.Second

// ClaimRequest implements privacy.Queue.
func (s *Store) ClaimRequest(ctx context.Context) (privacy.Work, error) {
	if !s.holdsKeys() {
		return nil, nil
	}
	var row requestRow
	err := query(s.db, "due_request").Scan(ctx, &row)
	if err == nil {
		err = query(s.db, "claim_request", named{"chain": row.Chain, "id": row.ID, "lease": lease()}).Scan(ctx, &row)
	}
	if errors.Is(err, sql.ErrNoRows) { // or another host was faster
		return nil, nil
	}
	var name requestSubject
	var text []byte
	if err == nil {
		text, err = s.keys.Open(row.Sealed, requestContext(row.ID))
	}
	if err == nil {
		err = json.Unmarshal(text, &name)
	}
	if err != nil {
		return nil, fmt.Errorf("claiming a privacy request: %w", err)
	}
	w := &requestWork{store: s, row: row, erasing: erasing{
		caller:   check.Caller{Account: row.AccountID, Key: row.KeyID},
		selector: privacy.Selector{Subject: privacy.Reference(name.Pseudonym)}, node: name.Node,
		started: true, // the request was made because there is data
	}}
	return w, nil
}

// lease returns requestLease as Postgres reads it.
func lease() string { return fmt.Sprint(requestLease.Milliseconds(), " milliseconds") }

// requestWork is a claimed request.
type requestWork struct {
	store   *Store
	row     requestRow
	erasing erasing

	// Of an export. The rest is nil or empty until its first step.
	frame     *privacy.Export // what all parts have in common
	pseudonym []byte
	after     string  // the last check of the last part
	seqs      []int64 // of the next checks
	all       bool    // seqs holds all that remain
}

// Step implements privacy.Work.
func (w *requestWork) Step(ctx context.Context) (more bool, err error) {
	if w.row.Kind == privacy.KindErasure {
		more, err = w.erase(ctx)
	} else {
		more, err = w.export(ctx)
	}
	switch {
	case errors.Is(err, check.ErrUnauthorized), errors.As(err, new(*entity.InvalidError)):
		w.store.log.Warn("a privacy request failed", "request", w.row.ID, "error", err)
		return false, w.settle(ctx, privacy.StateFailed)
	case errors.Is(err, privacy.ErrUnknownSubject): // erased or pruned meanwhile
		return false, w.settle(ctx, privacy.StateDeleted)
	case err != nil:
		return false, fmt.Errorf("working on privacy request %s: %w", w.row.ID, err)
	}
	return more, nil
}

// erase takes a step of an erasure.
func (w *requestWork) erase(ctx context.Context) (more bool, err error) {
	batch, err := w.store.eraseStep(ctx, &w.erasing)
	if err != nil {
		return false, err
	}
	if !batch.more {
		return false, w.settle(ctx, privacy.StateDone)
	}
	if time.Until(w.row.LeaseUntil) < requestLease*2/3 {
		w.row.LeaseUntil = time.Now().Add(requestLease)
		_, err = w.store.db.NewRaw(`UPDATE subject_requests SET lease_until = now() + ?::interval
			WHERE chain = ? AND id = ?`, lease(), w.row.Chain, w.row.ID).Exec(ctx)
	}
	return true, err
}

// settle ends a request.
func (w *requestWork) settle(ctx context.Context, state privacy.State) error {
	_, err := w.store.db.NewRaw(`UPDATE subject_requests SET state = ?, sealed = NULL, settled_at = now()
		WHERE chain = ? AND id = ? AND state = 'running'`, state, w.row.Chain, w.row.ID).Exec(ctx)
	return err
}

// export stores the next part of an export: up to privacy.AtOnce checks that were recorded before the request. The
// subject's overrides, erasures and part of the graph are as of the claim of the request.
func (w *requestWork) export(ctx context.Context) (more bool, err error) {
	s := w.store
	var part privacy.Export
	var r requester
	var seqs []int64
	err = s.inSnapshot(ctx, func(ctx context.Context, tx bun.Tx) (err error) {
		if r, err = s.findRequester(ctx, tx, w.erasing.caller); err != nil {
			return err
		}
		if w.frame == nil {
			if err := w.readFrame(ctx, tx, r); err != nil {
				return err
			}
		}
		if len(w.seqs) <= privacy.AtOnce && !w.all {
			if err := w.readSeqs(ctx, tx, r); err != nil {
				return err
			}
		}
		part, seqs = *w.frame, w.seqs[:min(len(w.seqs), privacy.AtOnce)]
		records := bun.SafeQuery("(SELECT * FROM audit_records WHERE chain = ? AND seq = ANY (?))", r.Chain,
			pgdialect.Array(seqs))
		part.Checks, err = s.readChecks(ctx, tx, r, records, 0, privacy.AtOnce)
		return err
	})
	if err == nil && len(part.Checks) < len(seqs) {
		err = privacy.ErrUnknownSubject // checks were erased or pruned
	}
	if err != nil {
		return false, err
	}
	after, to := w.after, w.row.AtSeq
	if n := len(seqs); n > 0 {
		w.after, to = part.Checks[n-1].Ref, seqs[n-1]
	}
	if w.seqs = w.seqs[len(seqs):]; len(w.seqs) > 0 {
		part.Next = &w.after
	}
	text, err := json.Marshal(part)
	if err != nil {
		return false, err
	}
	stored, err := once[bool](ctx, s, `SELECT store_export_part(?chain, ?id, ?from, ?to, ?checks, ?after, ?part, ?last,
		?lease)`, named{"chain": r.Chain, "id": w.row.ID, "from": w.row.AtSeq, "to": to, "checks": len(seqs),
		"after": s.partName(r, after), "part": s.keys.Seal(text, partContext(w.row.ID, after)),
		"last": part.Next == nil, "lease": lease()})
	w.row.AtSeq = to
	return stored && part.Next != nil, err
}

// readFrame reads the data that all parts of an export have in common, and where the export continues.
func (w *requestWork) readFrame(ctx context.Context, tx bun.Tx, r requester) error {
	s := w.store
	p, err := s.findSubject(ctx, tx, r, w.erasing.selector)
	if err == nil {
		w.after, err = s.refAt(ctx, tx, r, w.row.AtSeq)
	}
	if err != nil {
		return err
	}
	if p.node == nil {
		p.node = w.erasing.node
	}
	w.frame = &privacy.Export{Subject: p.reference(), Total: w.row.Total, Erasures: p.erasures}
	if p.kind != "" {
		w.frame.Type = &p.kind
	}
	if w.frame.Graph, err = s.readSightings(ctx, tx, r, p); err != nil {
		return err
	}
	w.pseudonym = p.pseudonym
	w.frame.Overrides, err = s.exportOverrides(ctx, tx, r, p)
	return err
}

// readSeqs reads the places of many checks at once, because each read looks at all of the subject's records.
func (w *requestWork) readSeqs(ctx context.Context, tx bun.Tx, r requester) error {
	const most = 10 * privacy.AtOnce
	w.seqs = nil
	err := tx.NewSelect().TableExpr("? AS r", r.ofSubject(w.pseudonym)).Column("seq").
		Where("account_id = ? AND kind = ?", r.AccountID, audit.Check).
		Where("seq > ? AND seq <= ?", w.row.AtSeq, w.row.Since).Order("seq").Limit(most).Scan(ctx, &w.seqs)
	w.all = len(w.seqs) < most
	return err
}

// refAt returns the reference of the record at a place of the chain, or "" before the first.
func (s *Store) refAt(ctx context.Context, db bun.IDB, r requester, seq int64) (ref string, err error) {
	if seq == 0 {
		return "", nil
	}
	err = db.NewRaw("SELECT ref FROM audit_records WHERE chain = ? AND seq = ? AND ref IS NOT NULL", r.Chain, seq).
		Scan(ctx, &ref)
	return ref, orElse(err, privacy.ErrUnknownSubject)
}
