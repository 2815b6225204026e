package store

import (
	"context"
	"crypto/sha256"
	"database/sql"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"assay/host/audit"
	"assay/host/check"
	"assay/registry"
)

type revisionRow struct {
	Revision    int64
	Document    json.RawMessage
	Digest      []byte
	Origin      registry.LineupOrigin
	CreatedAt   time.Time
	ActivatedAt *time.Time
	Note        string
}

func (r revisionRow) revision() (registry.LineupRevision, error) {
	out := registry.LineupRevision{Revision: r.Revision, Digest: fmt.Sprintf("sha256:%x", r.Digest), Origin: r.Origin,
		CreatedAt: r.CreatedAt, ActivatedAt: r.ActivatedAt, Note: r.Note}
	if err := json.Unmarshal(r.Document, &out.Lineup); err != nil {
		return out, fmt.Errorf("reading lineup revision %d: %w", r.Revision, err)
	}
	return out, nil
}

// digest encodes the document again and hashes that, because a jsonb column does not preserve the original bytes.
func (r revisionRow) digest() ([]byte, error) {
	revision, err := r.revision()
	if err != nil {
		return nil, err
	}
	document, err := revision.Lineup.Encode()
	digest := sha256.Sum256(document)
	return digest[:], err
}

// ActivateLineup stores lineup as a new revision, puts it in force on every host and records it in every audit chain.
func (s *Store) ActivateLineup(ctx context.Context, lineup registry.LineupDocument, origin registry.LineupOrigin,
	note string) (revision int64, err error) {
	document, err := lineup.Encode()
	if err != nil {
		return 0, fmt.Errorf("activating lineup: %w", err)
	}
	err = again(func() error {
		// Hash what the database will return, which can differ from the input: jsonb has no negative zero.
		var next revisionRow
		err := s.db.NewRaw(`SELECT ?::jsonb AS document, coalesce(max(revision), 0) + 1 AS revision
			FROM lineup_revisions`, string(document)).Scan(ctx, &next)
		if err != nil {
			return err
		}
		if next.Digest, err = next.digest(); err != nil {
			return err
		}
		revision, next.Origin, next.Note = next.Revision, origin, note
		return s.activate(ctx, next, new(string(next.Document)))
	})
	if err != nil {
		return 0, fmt.Errorf("activating lineup: %w", err)
	}
	return revision, nil
}

// RollbackLineup puts an earlier revision in force again. It fails with registry.ErrNoRevision.
func (s *Store) RollbackLineup(ctx context.Context, revision int64, note string) error {
	err := again(func() error {
		stored := revisionRow{Revision: revision, Note: note}
		err := s.db.NewRaw("SELECT digest FROM lineup_revisions WHERE revision = ?", revision).
			Scan(ctx, &stored.Digest)
		if errors.Is(err, sql.ErrNoRows) {
			return registry.ErrNoRevision
		}
		if err != nil {
			return err
		}
		return s.activate(ctx, stored, nil)
	})
	if err != nil {
		return fmt.Errorf("rolling lineup back to revision %d: %w", revision, err)
	}
	return nil
}

// activate puts a revision in force and records that in every audit chain. The document is nil if it is stored already.
func (s *Store) activate(ctx context.Context, r revisionRow, document *string) error {
	chains, err := s.chains(ctx)
	if err != nil {
		return err
	}
	at := s.now().UTC().Truncate(time.Millisecond)
	entries := make(map[int]json.RawMessage, len(chains))
	for _, chain := range chains {
		entries[chain] = json.RawMessage(entry(audit.Record{
			Kind: audit.Lineup, At: at.Format(check.TimeFormat),
			Ref:      fmt.Sprintf("lineup_%d_%s", r.Revision, strings.TrimPrefix(check.NewRef(), "chk_")),
			Revision: r.Revision, Digest: r.Digest,
		}, at))
	}
	text, err := json.Marshal(entries)
	if err != nil {
		return err
	}
	_, err = once[string](ctx, s, "SELECT activate_lineup(?revision, ?document, ?digest, ?origin, ?note, ?entries)",
		named{
			"revision": r.Revision, "document": document, "digest": r.Digest, "origin": r.Origin, "note": r.Note,
			"entries": string(text)})
	return err
}

//go:embed sql/active_lineup.sql
var activeLineup string

// ActiveLineup returns the revision in force. It fails with registry.ErrNoRevision before the first activation.
func (s *Store) ActiveLineup(ctx context.Context) (registry.LineupRevision, error) {
	return s.oneRevision(ctx, activeLineup)
}

//go:embed sql/lineup_revision.sql
var lineupRevision string

// LineupRevision returns a revision by number. It fails with registry.ErrNoRevision.
func (s *Store) LineupRevision(ctx context.Context, revision int64) (registry.LineupRevision, error) {
	return s.oneRevision(ctx, lineupRevision, named{"revision": revision})
}

func (s *Store) oneRevision(ctx context.Context, query string, args ...any) (registry.LineupRevision, error) {
	var row revisionRow
	err := s.db.NewRaw(query, args...).Scan(ctx, &row)
	if errors.Is(err, sql.ErrNoRows) {
		err = registry.ErrNoRevision
	}
	if err != nil {
		return registry.LineupRevision{}, fmt.Errorf("reading lineup: %w", err)
	}
	return row.revision()
}

// ActiveRevision returns the number of the revision in force, or 0 before the first activation. It is cheap enough to
// poll.
func (s *Store) ActiveRevision(ctx context.Context) (int64, error) {
	var revision int64
	err := s.db.NewRaw("SELECT coalesce((SELECT revision FROM lineup_activations ORDER BY id DESC LIMIT 1), 0)").
		Scan(ctx, &revision)
	if err != nil {
		return 0, fmt.Errorf("reading lineup: %w", err)
	}
	return revision, nil
}

//go:embed sql/lineup_history.sql
var lineupHistory string

// LineupHistory lists all revisions, newest first.
func (s *Store) LineupHistory(ctx context.Context) ([]registry.LineupRevision, error) {
	var rows []revisionRow
	if err := s.db.NewRaw(lineupHistory).Scan(ctx, &rows); err != nil {
		return nil, fmt.Errorf("reading lineups: %w", err)
	}
	history := make([]registry.LineupRevision, len(rows))
	for i, r := range rows {
		revision, err := r.revision()
		if err != nil {
			return nil, err
		}
		history[i] = revision
	}
	return history, nil
}

// LineupDigests returns the digests of the stored lineups by revision, computed from their documents, so that a
// verifier can compare them with the audit log. It omits documents that cannot be decoded.
func (l AuditLog) LineupDigests(ctx context.Context) (map[int64][]byte, error) {
	var rows []revisionRow
	if err := l.db.NewRaw("SELECT revision, document FROM lineup_revisions").Scan(ctx, &rows); err != nil {
		return nil, fmt.Errorf("reading lineups: %w", err)
	}
	digests := make(map[int64][]byte, len(rows))
	for _, r := range rows {
		if digest, err := r.digest(); err == nil {
			digests[r.Revision] = digest
		}
	}
	return digests, nil
}
