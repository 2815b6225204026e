package store

import (
	"context"
	"crypto/sha256"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/uptrace/bun"

	"assay/host/audit"
	"assay/host/check"
	"assay/registry"
)

// Plugin is a published version of a plugin.
type Plugin struct {
	bun.BaseModel `bun:"table:plugin_versions,alias:p" json:"-"`

	Name        string          `bun:",pk" json:"name"`
	Version     string          `bun:",pk" json:"version"`
	Digest      []byte          `json:"-"`
	Manifest    json.RawMessage `bun:"type:jsonb" json:"-"`
	FirstParty  bool            `json:"first_party"`
	PublishedAt time.Time       `bun:",nullzero,default:now()" json:"published_at"`
}

// Errors of plugins and lineups.
var (
	ErrVersionTaken = errors.New("this version was published with other content: a published version never changes, so raise the version in the manifest")
	ErrNoPlugin     = errors.New("there is no such published plugin")
	ErrNoRevision   = errors.New("there is no such lineup revision")
)

// PublishPlugin stores a module as version of its plugin. Publishing the same bytes again does nothing. Error:
// ErrVersionTaken.
func (s *Store) PublishPlugin(ctx context.Context, m registry.Module, version string, firstParty bool) error {
	manifest, err := json.Marshal(m.Manifest)
	if err != nil {
		return fmt.Errorf("publishing %s: %w", m.Manifest.Name, err)
	}
	row := Plugin{Name: m.Manifest.Name, Version: version, Digest: m.Digest[:], Manifest: manifest,
		FirstParty: firstParty}
	err = s.inTx(ctx, func(ctx context.Context, tx bun.Tx) error {
		if _, err := tx.NewRaw("INSERT INTO plugin_modules (digest, wasm) VALUES (?, ?) ON CONFLICT DO NOTHING",
			m.Digest[:], m.Wasm).Exec(ctx); err != nil {
			return err
		}
		if _, err := tx.NewInsert().Model(&row).On("CONFLICT DO NOTHING").Exec(ctx); err != nil {
			return err
		}
		var digest []byte
		if err := tx.NewSelect().Model((*Plugin)(nil)).Column("digest").Where("name = ? AND version = ?", row.Name,
			version).Scan(ctx, &digest); err != nil {
			return err
		}
		if registry.Digest(digest) != m.Digest {
			return ErrVersionTaken
		}
		return notify(ctx, tx, TopicPlugins)
	})
	if err != nil {
		return fmt.Errorf("publishing %s@%s: %w", m.Manifest.Name, version, err)
	}
	return nil
}

// Plugins lists the published versions, by name and newest first.
func (s *Store) Plugins(ctx context.Context) ([]Plugin, error) {
	plugins := []Plugin{}
	if err := s.db.NewSelect().Model(&plugins).Order("name", "published_at DESC",
		"version DESC").Scan(ctx); err != nil {
		return nil, fmt.Errorf("listing plugins: %w", err)
	}
	return plugins, nil
}

// Plugin returns a published version. Error: ErrNoPlugin.
func (s *Store) Plugin(ctx context.Context, name, version string) (Plugin, error) {
	var p Plugin
	err := s.db.NewSelect().Model(&p).Where("name = ? AND version = ?", name, version).Scan(ctx)
	if errors.Is(err, sql.ErrNoRows) {
		err = ErrNoPlugin
	}
	if err != nil {
		return Plugin{}, fmt.Errorf("looking up %s@%s: %w", name, version, err)
	}
	return p, nil
}

// Module returns the module of that digest. Error: ErrNoPlugin, also when what is stored does not have this digest.
func (s *Store) Module(ctx context.Context, digest registry.Digest) (registry.Module, error) {
	var wasm []byte
	err := s.db.NewRaw("SELECT wasm FROM plugin_modules WHERE digest = ?", digest[:]).Scan(ctx, &wasm)
	if errors.Is(err, sql.ErrNoRows) {
		err = ErrNoPlugin
	}
	if err != nil {
		return registry.Module{}, fmt.Errorf("reading module %s: %w", digest, err)
	}
	m, err := registry.OpenModule(wasm)
	if err != nil {
		return registry.Module{}, fmt.Errorf("reading module %s: %w", digest, err)
	}
	if m.Digest != digest {
		return registry.Module{}, fmt.Errorf("reading module %s: its content was altered: %w", digest, ErrNoPlugin)
	}
	return m, nil
}

// Origin says who made a lineup.
type Origin string

// The origins of a lineup.
const (
	BuiltIn  Origin = "built-in" // the host, of the layers that it was built with
	Operator Origin = "operator"
)

// Revision is a lineup as stored, and its latest activation if it was ever in force.
type Revision struct {
	Revision    int64                   `json:"revision"`
	Lineup      registry.LineupDocument `json:"lineup"`
	Digest      string                  `json:"digest"`
	Origin      Origin                  `json:"origin"`
	CreatedAt   time.Time               `json:"created_at"`
	ActivatedAt *time.Time              `json:"activated_at"`
	Note        string                  `json:"note"` // of the activation
}

type revisionRow struct {
	Revision    int64
	Document    json.RawMessage
	Digest      []byte
	Origin      Origin
	CreatedAt   time.Time
	ActivatedAt *time.Time
	Note        string
}

func (r revisionRow) revision() (Revision, error) {
	out := Revision{Revision: r.Revision, Digest: fmt.Sprintf("sha256:%x", r.Digest), Origin: r.Origin,
		CreatedAt: r.CreatedAt, ActivatedAt: r.ActivatedAt, Note: r.Note}
	if err := json.Unmarshal(r.Document, &out.Lineup); err != nil {
		return out, fmt.Errorf("reading lineup revision %d: %w", r.Revision, err)
	}
	return out, nil
}

// digest is of the document's meaning, encoded anew: the database keeps no bytes.
func (r revisionRow) digest() ([]byte, error) {
	revision, err := r.revision()
	if err != nil {
		return nil, err
	}
	document, err := revision.Lineup.Encode()
	digest := sha256.Sum256(document)
	return digest[:], err
}

// lineupLock serialises changes of the lineup.
const lineupLock = migrationLock + 1

// ActivateLineup stores lineup as a new revision, puts it in force on every host and records it in every audit chain.
func (s *Store) ActivateLineup(ctx context.Context, lineup registry.LineupDocument, origin Origin, note string) (revision int64,
	err error) {
	document, err := lineup.Encode()
	if err != nil {
		return 0, fmt.Errorf("activating lineup: %w", err)
	}
	err = s.changeLineup(ctx, func(ctx context.Context, tx bun.Tx) (int64, error) {
		// What is hashed is what the database gives back of it: no negative zero, for one.
		var kept revisionRow
		if err := tx.NewRaw("SELECT ?::jsonb AS document", string(document)).Scan(ctx, &kept); err != nil {
			return 0, err
		}
		digest, err := kept.digest()
		if err != nil {
			return 0, err
		}
		err = tx.NewRaw(`INSERT INTO lineup_revisions (revision, document, digest, origin)
			SELECT coalesce(max(revision), 0) + 1, ?, ?, ? FROM lineup_revisions RETURNING revision`,
			string(kept.Document), digest, origin).Scan(ctx, &revision)
		return revision, err
	}, note)
	if err != nil {
		return 0, fmt.Errorf("activating lineup: %w", err)
	}
	return revision, nil
}

// RollbackLineup puts an earlier revision in force again. Error: ErrNoRevision.
func (s *Store) RollbackLineup(ctx context.Context, revision int64, note string) error {
	err := s.changeLineup(ctx, func(context.Context, bun.Tx) (int64, error) { return revision, nil }, note)
	if err != nil {
		return fmt.Errorf("rolling lineup back to revision %d: %w", revision, err)
	}
	return nil
}

// changeLineup puts the revision that choose returns in force.
func (s *Store) changeLineup(ctx context.Context, choose func(context.Context, bun.Tx) (int64, error),
	note string) error {
	return s.inTx(ctx, func(ctx context.Context, tx bun.Tx) error {
		if _, err := tx.ExecContext(ctx, "SELECT pg_advisory_xact_lock(?)", int64(lineupLock)); err != nil {
			return err
		}
		revision, err := choose(ctx, tx)
		if err != nil {
			return err
		}
		var digest []byte
		err = tx.NewRaw("SELECT digest FROM lineup_revisions WHERE revision = ?", revision).Scan(ctx, &digest)
		if errors.Is(err, sql.ErrNoRows) {
			return ErrNoRevision
		}
		if err != nil {
			return err
		}
		_, err = tx.NewRaw(`INSERT INTO lineup_activations (id, revision, note)
			SELECT coalesce(max(id), 0) + 1, ?, ? FROM lineup_activations`, revision, note).Exec(ctx)
		if err != nil {
			return err
		}
		if err := s.recordLineup(ctx, tx, revision, digest); err != nil {
			return err
		}
		return notify(ctx, tx, TopicLineup)
	})
}

// recordLineup puts the activation into every audit chain.
func (s *Store) recordLineup(ctx context.Context, tx bun.Tx, revision int64, digest []byte) error {
	heads, err := lockHeads(ctx, tx, nil)
	if err != nil {
		return err
	}
	at := s.now().UTC().Truncate(time.Millisecond)
	for _, chain := range slices.Sorted(maps.Keys(heads)) {
		err := appendRecord(ctx, tx, heads[chain], audit.Record{
			Kind: audit.Lineup, At: at.Format(check.TimeFormat), Ref: fmt.Sprintf("lineup_%d_%s", revision,
				check.NewRef()[4:]), Revision: revision, Digest: digest,
		}, at)
		if err != nil {
			return fmt.Errorf("recording lineup: %w", err)
		}
	}
	return nil
}

// revisions selects revisions with their latest activation.
const revisions = `SELECT r.revision, r.document, r.digest, r.origin, r.created_at, a.activated_at, coalesce(a.note, '') AS note
	FROM lineup_revisions AS r
	LEFT JOIN LATERAL (SELECT id, activated_at, note FROM lineup_activations WHERE revision = r.revision ORDER BY id DESC LIMIT 1) AS a ON true `

// ActiveLineup returns the revision in force. Error: ErrNoRevision when there is none yet.
func (s *Store) ActiveLineup(ctx context.Context) (Revision, error) {
	return s.oneRevision(ctx, revisions+"WHERE a.id IS NOT NULL ORDER BY a.id DESC LIMIT 1")
}

// LineupRevision returns a revision by number. Error: ErrNoRevision.
func (s *Store) LineupRevision(ctx context.Context, revision int64) (Revision, error) {
	return s.oneRevision(ctx, revisions+"WHERE r.revision = ?", revision)
}

func (s *Store) oneRevision(ctx context.Context, query string, args ...any) (Revision, error) {
	var row revisionRow
	err := s.db.NewRaw(query, args...).Scan(ctx, &row)
	if errors.Is(err, sql.ErrNoRows) {
		err = ErrNoRevision
	}
	if err != nil {
		return Revision{}, fmt.Errorf("reading lineup: %w", err)
	}
	return row.revision()
}

// ActiveRevision returns the number of the revision in force, 0 when there is none yet. It is what hosts poll.
func (s *Store) ActiveRevision(ctx context.Context) (int64, error) {
	var revision int64
	err := s.db.NewRaw("SELECT coalesce((SELECT revision FROM lineup_activations ORDER BY id DESC LIMIT 1), 0)").
		Scan(ctx, &revision)
	if err != nil {
		return 0, fmt.Errorf("reading lineup: %w", err)
	}
	return revision, nil
}

// LineupHistory lists revisions, newest first.
func (s *Store) LineupHistory(ctx context.Context) ([]Revision, error) {
	var rows []revisionRow
	if err := s.db.NewRaw(revisions+"ORDER BY r.revision DESC").Scan(ctx, &rows); err != nil {
		return nil, fmt.Errorf("reading lineups: %w", err)
	}
	history := make([]Revision, len(rows))
	for i, r := range rows {
		revision, err := r.revision()
		if err != nil {
			return nil, err
		}
		history[i] = revision
	}
	return history, nil
}

// LineupDigests returns what the stored lineups hash to, by revision, to be held to what the audit trail says. One that
// cannot be read is left out.
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
