package store

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"assay/host/audit"
)

// KeepCheckpoints stores signed checkpoints of trees, unless they are stored already.
func (s *Store) KeepCheckpoints(ctx context.Context, trees []Tree, notes []string) error {
	for i, t := range trees {
		_, err := s.db.NewRaw(`INSERT INTO audit_checkpoints (chain, size, note) VALUES (?, ?, ?)
			ON CONFLICT DO NOTHING`, t.Chain, t.Size, notes[i]).Exec(ctx)
		if err != nil {
			return fmt.Errorf("storing a checkpoint of audit chain %d: %w", t.Chain, err)
		}
	}
	return nil
}

// Checkpoints returns the signed checkpoints of a chain's tree from a size on, in ascending order, with the signatures
// of witnesses that they have. They are not verified. The error is an *audit.BreakError if a checkpoint is stored under
// another chain or size.
func (l AuditLog) Checkpoints(ctx context.Context, chain int, from int64) (notes []string, err error) {
	var rows []struct {
		Size       int64
		Note, Text string
	}
	err = l.db.NewRaw(`SELECT size, note, note || cosignatures AS text FROM audit_checkpoints
		WHERE chain = ? AND size >= ? ORDER BY size`, chain, from).Scan(ctx, &rows)
	if err != nil {
		return nil, fmt.Errorf("reading checkpoints of audit chain %d: %w", chain, err)
	}
	for _, r := range rows {
		lines := strings.SplitN(r.Note, "\n", 3)
		origin, _, _ := strings.Cut(lines[0], "/after/")
		if len(lines) == 3 && (!strings.HasSuffix(origin, fmt.Sprintf("/chain/%d", chain)) ||
			lines[1] != strconv.FormatInt(r.Size, 10)) {
			return nil, &audit.BreakError{Chain: chain, Seq: r.Size,
				Reason: "the row of a checkpoint has another chain or size than the checkpoint"}
		}
		notes = append(notes, r.Text)
	}
	return notes, nil
}

// OldCheckpoints returns the signed checkpoints of all chains that were stored at least age ago.
func (s *Store) OldCheckpoints(ctx context.Context, age time.Duration) (notes []string, err error) {
	err = s.db.NewRaw("SELECT note FROM audit_checkpoints WHERE signed_at <= now() - make_interval(secs => ?)",
		age.Seconds()).Scan(ctx, &notes)
	return notes, wrap(err, "reading checkpoints")
}

// NewestCheckpoint returns the signed checkpoint of a chain's largest tree, with the signatures of witnesses that it
// has, or "" if there is none. It is not verified.
func (s *Store) NewestCheckpoint(ctx context.Context, chain int) (note string, err error) {
	return s.checkpoint(ctx, `SELECT note || cosignatures FROM audit_checkpoints WHERE chain = ?
		ORDER BY size DESC LIMIT 1`, chain)
}

// NewestCosigned returns the newest checkpoint of a chain that has at least size leaves and the signature of a witness,
// or "". It is not verified.
func (s *Store) NewestCosigned(ctx context.Context, chain int, size int64) (note string, err error) {
	return s.checkpoint(ctx, `SELECT note || cosignatures FROM audit_checkpoints
		WHERE chain = ? AND size >= ? AND cosignatures <> '' ORDER BY size DESC LIMIT 1`, chain, size)
}

// checkpoint returns the checkpoint that a query selects, or "".
func (s *Store) checkpoint(ctx context.Context, query string, args ...any) (note string, err error) {
	err = s.db.NewRaw(query, args...).Scan(ctx, &note)
	return note, wrap(orElse(err, nil), "reading the checkpoint of audit chain %d", args[0])
}

// KeepCosignature adds the signature lines of a witness to the checkpoint of a chain's tree with size leaves. It does
// nothing if the checkpoint is not stored, or already has lines under the witness's name.
func (s *Store) KeepCosignature(ctx context.Context, chain int, size int64, name, lines string) error {
	_, err := s.db.NewRaw(`UPDATE audit_checkpoints SET cosignatures = cosignatures || ?
		WHERE chain = ? AND size = ? AND position(? IN cosignatures) = 0`, lines, chain, size,
		"\u2014 "+name+" ").Exec(ctx)
	return wrap(err, "storing a cosignature of audit chain %d", chain)
}

// ThinCheckpoints deletes checkpoints older than a day, except the newest of each chain and hour and the newest with
// the signature of a witness. Hours are by the database's clock.
func (s *Store) ThinCheckpoints(ctx context.Context) error {
	var chains []int
	err := s.db.NewRaw("SELECT DISTINCT chain FROM audit_heads ORDER BY chain").Scan(ctx, &chains)
	for _, chain := range chains {
		if err == nil {
			_, err = query(s.db, "thin_checkpoints", named{"chain": chain}).Exec(ctx)
		}
	}
	return wrap(err, "thinning checkpoints")
}
