package store

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"assay/host/audit"
	"assay/host/check"
	"assay/registry"
	"assay/registry/activation"
)

type revisionRow struct {
	Revision    int64
	Text        string
	Digest      []byte
	Origin      registry.LineupOrigin
	CreatedAt   time.Time
	ActivatedAt *time.Time
	Reason      string
	Signed      string
}

func (r revisionRow) revision() (registry.LineupRevision, error) {
	out := registry.LineupRevision{Revision: r.Revision, Digest: fmt.Sprintf("sha256:%x", r.Digest), Origin: r.Origin,
		CreatedAt: r.CreatedAt, ActivatedAt: r.ActivatedAt, Reason: r.Reason}
	if err := json.Unmarshal([]byte(r.Text), &out.Lineup); err != nil {
		return out, fmt.Errorf("reading lineup revision %d: %w", r.Revision, err)
	}
	if a, err := activation.Unverified(r.Signed); err == nil { // for display: `audit verify` finds one that was altered
		out.Activation, out.Author = a.Number, a.Author
	}
	return out, nil
}

// StoreLineup stores the canonical text of a lineup and returns its revision: that of an equal lineup, if there is one.
func (s *Store) StoreLineup(ctx context.Context, canonical []byte, origin registry.LineupOrigin) (int64, error) {
	hash := registry.LineupHash(canonical)
	var revision int64
	err := again(func() (err error) {
		revision, err = once[int64](ctx, s, "SELECT store_lineup(?text, ?hash, ?origin)",
			named{"text": string(canonical), "hash": hash[:], "origin": origin})
		return err
	})
	return revision, wrap(err, "storing lineup")
}

// Activate puts a signed activation in force on every host and records it in every audit chain. Unless the activation
// that a replaces is in force, it changes nothing and fails with activation.ErrSuperseded.
func (s *Store) Activate(ctx context.Context, a activation.Signed) error {
	var refused string
	err := again(func() (err error) {
		refused, err = s.activate(ctx, a)
		return err
	})
	s.watched.latest.Store(nil) // another activation may have been the reason for a refusal
	if err == nil && refused != "" {
		err = activation.ErrSuperseded
	}
	return wrap(err, "storing activation %d", a.Number)
}

func (s *Store) activate(ctx context.Context, a activation.Signed) (refused string, err error) {
	chains, err := s.chains(ctx)
	if err != nil {
		return "", err
	}
	at := s.now().UTC().Truncate(time.Millisecond)
	entries := make(map[int]json.RawMessage, len(chains))
	for _, chain := range chains {
		entries[chain] = json.RawMessage(entry(audit.Record{
			Kind: audit.Activation, At: at.Format(check.TimeFormat),
			Ref:      fmt.Sprintf("activation_%d_%s", a.Number, strings.TrimPrefix(check.NewRef(), "chk_")),
			Revision: a.Lineup.Revision, Digest: a.Hash[:],
		}, at))
	}
	text, err := json.Marshal(entries)
	if err != nil {
		return "", err
	}
	var base []byte
	if a.Previous != (registry.Digest{}) {
		base = a.Previous[:]
	}
	var canary *int64
	var share *int
	if a.Canary != nil {
		canary, share = &a.Canary.Revision, &a.Canary.Share
	}
	return once[string](ctx, s, statement("activate"), named{
		"base": base, "number": a.Number, "signed": a.Note, "hash": a.Hash[:], "revision": a.Lineup.Revision,
		"canary": canary, "share": share, "reason": a.Reason, "at": at, "entries": string(text)})
}

// activated is an activation as it is stored.
type activated struct {
	ID     int64
	Signed string
}

// LastActivation returns the activation that was stored last as a signed note. ok is false before the first. Nothing in
// it is verified. It is cheap enough to poll.
func (s *Store) LastActivation(ctx context.Context) (signed string, ok bool, err error) {
	last := s.activated.Load()
	if seen := s.unchanged(); seen != nil && last != nil && last.ID == seen.Activation {
		return last.Signed, true, nil
	}
	last = &activated{}
	err = s.db.NewRaw("SELECT id, signed FROM lineup_activations ORDER BY id DESC LIMIT 1").Scan(ctx, last)
	if err != nil {
		return "", false, wrap(orElse(err, nil), "reading the last activation")
	}
	s.activated.Store(last)
	return last.Signed, true, nil
}

// Activation returns the activation with a hash as a signed note. Nothing in it is verified. It fails with
// activation.ErrNone.
func (s *Store) Activation(ctx context.Context, hash registry.Digest) (signed string, err error) {
	err = s.db.NewRaw("SELECT signed FROM lineup_activations WHERE hash = ?", hash[:]).
		Scan(ctx, &signed)
	return signed, wrap(orElse(err, activation.ErrNone), "reading activation %s", hash)
}

// LineupText returns the canonical text of a revision. Nothing in it is verified. It fails with registry.ErrNoRevision.
func (s *Store) LineupText(ctx context.Context, revision int64) (canonical []byte, err error) {
	err = s.db.NewRaw("SELECT convert_to(text, 'UTF8') FROM lineup_revisions WHERE revision = ?", revision).
		Scan(ctx, &canonical)
	return canonical, wrap(orElse(err, registry.ErrNoRevision), "reading lineup revision %d", revision)
}

// ActiveLineup returns the revision that was activated last, as the database has it. Hosts and commands that decide use
// signed activations instead. It fails with registry.ErrNoRevision before the first activation.
func (s *Store) ActiveLineup(ctx context.Context) (registry.LineupRevision, error) {
	return s.LineupRevision(ctx, 0)
}

// LineupRevision returns a revision by number; 0: the one that was activated last. It fails with
// registry.ErrNoRevision.
func (s *Store) LineupRevision(ctx context.Context, revision int64) (registry.LineupRevision, error) {
	var row revisionRow
	err := query(s.db, "lineup_revision", named{"revision": revision}).Scan(ctx, &row)
	if err != nil {
		return registry.LineupRevision{}, fmt.Errorf("reading lineup: %w", orElse(err, registry.ErrNoRevision))
	}
	return row.revision()
}

// StoredLineup is a revision as it is stored: nothing in it is verified.
type StoredLineup struct {
	Revision int64
	Text     string // canonical
	Digest   []byte
}

// Lineups returns all revisions.
func (l AuditLog) Lineups(ctx context.Context) (map[int64]StoredLineup, error) {
	var rows []StoredLineup
	err := l.db.NewRaw("SELECT revision, text, digest FROM lineup_revisions").Scan(ctx, &rows)
	if err != nil {
		return nil, fmt.Errorf("reading lineups: %w", err)
	}
	lineups := make(map[int64]StoredLineup, len(rows))
	for _, r := range rows {
		lineups[r.Revision] = r
	}
	return lineups, nil
}

// StoredActivation is an activation as it is stored: nothing in it is verified.
type StoredActivation struct {
	ID             int64
	Number         int64
	Revision       int64
	CanaryRevision *int64
	Share          *int
	Reason         string
	ActivatedAt    time.Time
	Signed         string
	Hash           []byte
}

// Activations returns all activations in the order in which they were stored.
func (l AuditLog) Activations(ctx context.Context) (rows []StoredActivation, err error) {
	err = l.db.NewRaw(`SELECT id, number, revision, canary_revision, share, reason, activated_at, signed, hash
		FROM lineup_activations ORDER BY id`).Scan(ctx, &rows)
	return rows, wrap(err, "reading activations")
}

// RevisionsInForce returns the revisions that checks may be recorded under, and when each was replaced: nil for those
// in force.
func (l AuditLog) RevisionsInForce(ctx context.Context) (map[int64]*time.Time, error) {
	var rows []struct {
		Revision int64
		Until    *time.Time
	}
	// An infinite time was not written by a host, and cannot be read.
	err := l.db.NewRaw(`SELECT revision, CASE WHEN until IN ('infinity', '-infinity') THEN 'epoch' ELSE until END
		AS until FROM revisions_in_force`).Scan(ctx, &rows)
	if err != nil {
		return nil, fmt.Errorf("reading the revisions in force: %w", err)
	}
	revisions := make(map[int64]*time.Time, len(rows))
	for _, r := range rows {
		revisions[r.Revision] = r.Until
	}
	return revisions, nil
}
