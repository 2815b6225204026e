package store

import (
	"bytes"
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/uptrace/bun"

	"assay/host/facts/feed"
	"assay/host/facts/reputation"
)

// TopicFeeds announces that a list was imported or withdrawn.
const TopicFeeds Topic = "feeds"

// Errors of lists.
var (
	ErrNoFeed    = errors.New("there is no list of that name")
	ErrEmptyFeed = errors.New("the list has no entry that could be read, so nothing was changed")
)

// feedLock serialises changes of lists.
const feedLock = migrationLock + 2

// lockFeeds holds feedLock until the transaction ends.
func lockFeeds(ctx context.Context, tx pgx.Tx) error {
	_, err := tx.Exec(ctx, "SELECT pg_advisory_xact_lock($1)", int64(feedLock))
	return err
}

// ImportFeed replaces the content of the list named list.Name with the entries that next returns until io.EOF. The
// import is atomic: the previous content applies until it succeeds. Unchanged entries are not written again. It fails
// with ErrEmptyFeed if next returns no entry.
func (s *Store) ImportFeed(
	ctx context.Context, list feed.List, next func() ([]feed.Entry, error),
) (feed.Change, error) {
	change, err := s.importFeed(ctx, list, next, func(ctx context.Context, tx pgx.Tx, _ int) error {
		// The publisher's validators do not apply to this content.
		_, err := tx.Exec(ctx, "UPDATE feed_subscriptions SET etag = '', last_modified = '' WHERE name = $1", list.Name)
		return err
	})
	return change, wrap(err, "importing list %s", list.Name)
}

// importFeed implements ImportFeed. Before it changes the list, it calls admit with the number of entries, which may
// refuse the import.
func (s *Store) importFeed(
	ctx context.Context, list feed.List, next func() ([]feed.Entry, error),
	admit func(ctx context.Context, tx pgx.Tx, entries int) error,
) (change feed.Change, err error) {
	err = s.inLongTx(ctx, func(ctx context.Context, tx pgx.Tx) error {
		if err := s.copyEntries(ctx, tx, next); err != nil {
			return err
		}
		if err := lockFeeds(ctx, tx); err != nil {
			return err
		}
		// If an entity is listed twice, the more informative entry wins: the better rank, a host over a page, a
		// category over none.
		err := execAll(ctx, tx,
			"SET LOCAL work_mem = '64MB'",
			`CREATE TEMPORARY TABLE listed ON COMMIT DROP AS
				SELECT DISTINCT ON (node) * FROM incoming ORDER BY node, rank, page, category = '', category`,
			"ANALYZE listed")
		if err != nil {
			return err
		}
		if err := tx.QueryRow(ctx, "SELECT count(*) FROM listed").Scan(&change.Entries); err != nil {
			return err
		}
		if change.Entries == 0 {
			return ErrEmptyFeed
		}
		if err := admit(ctx, tx, change.Entries); err != nil {
			return err
		}
		now := s.now().UTC()
		var id int
		err = tx.QueryRow(ctx, statement("import_feed"), list.Name, string(list.Kind), list.Category, list.Source,
			string(list.Format), list.Licence, change.Entries, now, list.ExpiresAt, list.FreshUntil).Scan(&id)
		if err != nil {
			return err
		}
		if err := replaceRanks(ctx, tx, id, list.Kind, &change); err != nil {
			return err
		}
		if err := s.mergeEntries(ctx, tx, id, now, &change); err != nil {
			return err
		}
		if _, err = tx.Exec(ctx, "SELECT pg_notify($1, $2)", channel, string(TopicFeeds)); err != nil {
			return err
		}
		// In one message, because others wait for the head of the record's chain, and this host may be stopped.
		_, err = tx.Exec(ctx, fmt.Sprintf(`SELECT record_state('list content', name), record_state('list', name)
			FROM feeds WHERE id = %d; COMMIT`, id))
		return err
	})
	if err != nil {
		return feed.Change{}, err
	}
	s.compactEntries(ctx)
	return change, nil
}

// copyEntries streams the entries into the temporary table incoming.
func (s *Store) copyEntries(ctx context.Context, tx pgx.Tx, next func() ([]feed.Entry, error)) error {
	_, err := tx.Exec(ctx, `CREATE TEMPORARY TABLE incoming
		(node bytea, type text, value text, name text, page boolean, category text, rank integer) ON COMMIT DROP`)
	if err != nil {
		return err
	}
	var entries []feed.Entry
	var nextErr error // Postgres only reports that the client cancelled the copy
	columns := []string{"node", "type", "value", "name", "page", "category", "rank"}
	_, err = tx.CopyFrom(ctx, pgx.Identifier{"incoming"}, columns,
		pgx.CopyFromFunc(func() ([]any, error) {
			for len(entries) == 0 {
				if entries, nextErr = next(); errors.Is(nextErr, io.EOF) {
					nextErr = nil
					return nil, nil
				} else if nextErr != nil {
					return nil, nextErr
				}
			}
			e := entries[0]
			entries = entries[1:]
			node := s.node(reputation.Node{Kind: string(e.Type), Value: e.Value})
			if e.Rank > 0 { // of a ranked name, only node and rank are kept
				return []any{node, "", "", "", false, "", e.Rank}, nil
			}
			return []any{node, string(e.Type), e.Value, e.Name, e.Page, e.Category, 0}, nil
		}))
	return cmp.Or(nextErr, err)
}

// replaceRanks replaces the names of a ranked list with those in the temporary table listed, which it empties. A list
// that is no longer ranked loses its names.
func replaceRanks(ctx context.Context, tx pgx.Tx, list int, kind feed.Kind, change *feed.Change) error {
	var removed int
	err := tx.QueryRow(ctx, `WITH removed AS (DELETE FROM feed_ranks WHERE feed_id = $1 RETURNING ranks)
		SELECT coalesce(sum(length(ranks)), 0) / $2 FROM removed`, list, rankBytes).Scan(&removed)
	if err != nil || kind != feed.Ranked {
		return err
	}
	change.Added, change.Removed = change.Entries, removed
	if _, err := tx.Exec(ctx, `INSERT INTO feed_ranks (feed_id, prefix, ranks)
		SELECT $1, substring(node FOR 2), string_agg(substring(node FROM 3 FOR 8) || int4send(rank), '')
		FROM listed GROUP BY 2 ORDER BY 2`, list); err != nil {
		return err
	}
	_, err = tx.Exec(ctx, "TRUNCATE listed")
	return err
}

// rankBytes is the size of one name in feed_ranks.
const rankBytes = 12

// rankOf finds the rank of a node among the packed names that share its prefix. Ten bytes of a keyed hash identify a
// name: the probability that two of a million names share them is 4 in 10^13.
func rankOf(node, ranks []byte) (rank int, ok bool) {
	for ; len(ranks) >= rankBytes; ranks = ranks[rankBytes:] {
		if bytes.Equal(ranks[:8], node[2:10]) {
			return int(binary.BigEndian.Uint32(ranks[8:])), true
		}
	}
	return 0, false
}

// mergeEntries makes the entries of a list equal to the temporary table listed and counts the differences.
func (s *Store) mergeEntries(ctx context.Context, tx pgx.Tx, list int, now time.Time, change *feed.Change) error {
	// The differences are between temporary tables, because Citus does not compare one with a distributed table.
	err := execAll(ctx, tx,
		fmt.Sprintf(`CREATE TEMPORARY TABLE stored ON COMMIT DROP AS
			SELECT node, page, category FROM feed_entries WHERE feed_id = %d`, list),
		`CREATE TEMPORARY TABLE gone ON COMMIT DROP AS
			SELECT node, row_number() OVER (ORDER BY node) AS n
			FROM stored AS s WHERE NOT EXISTS (SELECT FROM listed AS l WHERE l.node = s.node)`,
		`CREATE TEMPORARY TABLE differing ON COMMIT DROP AS
			SELECT l.*, s.node IS NOT NULL AS stored, row_number() OVER (ORDER BY l.node) AS n
			FROM listed AS l LEFT JOIN stored AS s USING (node)
			WHERE s.node IS NULL OR (s.page, s.category) IS DISTINCT FROM (l.page, l.category)`,
		"CREATE INDEX ON gone (n)", "CREATE INDEX ON differing (n)")
	if err != nil {
		return err
	}
	removed, err := s.inSteps(ctx, tx, "gone", `DELETE FROM feed_entries
		WHERE feed_id = $1 AND node IN (SELECT node FROM gone WHERE n > $2 AND n <= $3)`, list)
	if err != nil {
		return err
	}
	_, err = s.inSteps(ctx, tx, "differing", `INSERT INTO feed_entries
			(feed_id, node, type, value, name, page, category, first_seen)
		SELECT $1, node, type, value, name, page, category, $4 FROM differing WHERE n > $2 AND n <= $3 ORDER BY node
		ON CONFLICT (feed_id, node) DO UPDATE SET page = EXCLUDED.page, category = EXCLUDED.category`, list, now)
	if err != nil {
		return err
	}
	var altered, added int
	err = tx.QueryRow(ctx, "SELECT count(*) FILTER (WHERE stored), count(*) FILTER (WHERE NOT stored) FROM differing").
		Scan(&altered, &added)
	if err != nil {
		return err
	}
	change.Removed += removed
	change.Altered += altered
	change.Added += added
	return nil
}

// stepRows is how many entries one statement of an import writes.
const stepRows = 5_000

// inSteps runs a statement for the numbered rows of a temporary table, stepRows at a time ($2 to $3), and returns how
// many it changed. After each step it waits until the standbys have what it wrote: commits of others wait for that too.
func (s *Store) inSteps(ctx context.Context, tx pgx.Tx, table, statement string, list int, more ...any) (
	changed int, err error) {
	rows := 0
	err = tx.QueryRow(ctx, "SELECT count(*) FROM "+table).Scan(&rows)
	for from := 0; err == nil && from < rows; from += stepRows {
		var tag pgconn.CommandTag
		tag, err = tx.Exec(ctx, statement, append([]any{list, from, from + stepRows}, more...)...)
		changed += int(tag.RowsAffected())
		if err == nil && from+stepRows < rows {
			_, err = s.db.ExecContext(ctx, "SELECT pg_logical_emit_message(true, 'assay', '')")
		}
	}
	return changed, err
}

func execAll(ctx context.Context, tx pgx.Tx, statements ...string) error {
	for _, statement := range statements {
		if _, err := tx.Exec(ctx, statement); err != nil {
			return err
		}
	}
	return nil
}

// WithdrawFeed disables a list on every host at once, ends its subscription, then deletes its entries. It fails with
// ErrNoFeed if there is no such list or subscription.
func (s *Store) WithdrawFeed(ctx context.Context, name string) error {
	err := s.require(ctx, fmt.Errorf("%w: %s", ErrNoFeed, name), "SELECT withdraw_list(?name)", named{"name": name})
	if err == nil {
		// Entries without a row in feeds have no effect. This also deletes the entries left by an interrupted
		// withdrawal.
		err = s.inLongTx(ctx, func(ctx context.Context, tx pgx.Tx) error {
			if err := lockFeeds(ctx, tx); err != nil {
				return err
			}
			return execAll(ctx, tx, "DELETE FROM feed_entries WHERE feed_id NOT IN (SELECT id FROM feeds)",
				"DELETE FROM feed_ranks WHERE feed_id NOT IN (SELECT id FROM feeds)")
		})
	}
	if err != nil {
		return fmt.Errorf("withdrawing list: %w", err)
	}
	s.compactEntries(ctx)
	return nil
}

// compactEntries rewrites the table of entries if that is worthwhile. It is a statement of its own, because lookups
// wait for it and this host may stop. If it fails, the next import tries again.
func (s *Store) compactEntries(ctx context.Context) {
	err := s.onLongConn(ctx, func(ctx context.Context, conn *pgx.Conn) error {
		_, err := conn.Exec(ctx, "SELECT compact_entries($1)", int64(feedLock))
		return err
	})
	if err != nil {
		s.log.Warn("compacting the entries of lists failed", "error", err)
	}
}

// readLists holds the lists read last, and the digest that a probe saw before they were read.
type readLists struct {
	lists  []feed.List
	digest string
}

// Feeds returns the imported lists by name, including expired ones.
func (s *Store) Feeds(ctx context.Context) ([]feed.List, error) {
	seen, read := s.unchanged(), s.lists.Load()
	if seen != nil && read != nil && read.digest == seen.Lists {
		return slices.Clone(read.lists), nil
	}
	lists := []feed.List{}
	err := s.db.NewRaw(`SELECT id, name, kind, category, source, format, licence, entries, version, imported_at,
		fresh_until, expires_at FROM feeds ORDER BY name`).Scan(ctx, &lists)
	if err == nil && seen != nil {
		s.lists.Store(&readLists{slices.Clone(lists), seen.Lists})
	}
	return lists, wrap(err, "reading lists")
}

// FeedNames returns up to limit named entries of a list, in the order of their nodes, starting after the given one.
// Entries for single pages on hosts that are on a good list are left out.
func (s *Store) FeedNames(ctx context.Context, listID int, after []byte, limit int) ([]reputation.ListedName, error) {
	names := []reputation.ListedName{}
	after = append([]byte{}, after...) // nil would be NULL
	args := named{"list": listID, "after": after, "limit": limit, "now": s.now().UTC()}
	err := query(s.db, "feed_names", args).Scan(ctx, &names)
	return names, wrap(err, "reading entries of a list")
}

// Listings returns the entries for the given nodes in all lists in force, ordered by list name.
func (s *Store) Listings(ctx context.Context, nodes []reputation.Node) ([]reputation.Listing, error) {
	if len(nodes) == 0 {
		return nil, nil
	}
	keys, prefixes := make([][]byte, len(nodes)), make([][]byte, len(nodes))
	indexes := map[string][]int{} // by node, and by its prefix
	for i, n := range nodes {
		keys[i] = s.node(n)
		prefixes[i] = keys[i][:2]
		indexes[string(keys[i])] = append(indexes[string(keys[i])], i)
		indexes[string(prefixes[i])] = append(indexes[string(prefixes[i])], i)
	}
	var rows []struct {
		Node []byte // its prefix in a row of a ranked list
		reputation.Listing
		Ranks []byte
	}
	args := named{"nodes": bun.List(keys), "prefixes": bun.List(prefixes), "now": s.now().UTC()}
	if err := query(s.db, "feed_listings", args).Scan(ctx, &rows); err != nil {
		return nil, fmt.Errorf("looking up entities in lists: %w", err)
	}
	var found []reputation.Listing
	for _, r := range rows {
		for _, i := range indexes[string(r.Node)] {
			l := r.Listing
			l.Index = i
			if l.Kind == feed.Ranked {
				var ok bool
				if l.Rank, ok = rankOf(keys[i], r.Ranks); !ok {
					continue
				}
			}
			found = append(found, l)
		}
	}
	return found, nil
}
