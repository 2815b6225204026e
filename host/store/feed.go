package store

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/uptrace/bun"

	"assay/host/feed"
)

// TopicFeeds says that a list was imported or withdrawn.
const TopicFeeds Topic = "feeds"

// Feed is an imported list.
type Feed struct {
	bun.BaseModel `bun:"table:feeds,alias:f" json:"-"`

	ID         int         `bun:",pk" json:"-"`
	Name       string      `json:"name"`
	Kind       feed.Kind   `json:"kind"`
	Category   string      `json:"category,omitempty"` // of entries that name none of their own
	Source     string      `json:"source"`             // the file or URL that it was read from
	Format     feed.Format `json:"format"`
	Licence    string      `json:"licence,omitempty"`
	Entries    int         `json:"entries"` // different ones
	Version    int         `json:"version"` // counts the imports
	ImportedAt time.Time   `json:"imported_at"`
	ExpiresAt  *time.Time  `json:"expires_at"` // it has no effect from then on; nil: never
}

// InForce says whether the list counts at that time.
func (f Feed) InForce(at time.Time) bool { return f.ExpiresAt == nil || f.ExpiresAt.After(at) }

// FeedChange is what an import changed.
type FeedChange struct {
	Entries int `json:"entries"` // of the list now
	Added   int `json:"added"`
	Altered int `json:"altered"` // in category or scope
	Removed int `json:"removed"`
}

// Errors of lists.
var (
	ErrNoFeed    = errors.New("there is no list of that name")
	ErrEmptyFeed = errors.New("nothing in it could be read as an entity, so the list stays as it was")
)

// feedLock serialises changes of lists.
const feedLock = migrationLock + 2

// ImportFeed replaces what the list of f's name holds by what next returns until io.EOF, all at once: until it is done,
// and when it fails, the earlier content counts. What stays the same is not written again. Error: ErrEmptyFeed.
func (s *Store) ImportFeed(ctx context.Context, f Feed, next func() ([]feed.Entry, error)) (FeedChange, error) {
	var change FeedChange
	err := s.slowly(ctx, func(ctx context.Context, tx pgx.Tx) error {
		if err := s.copyEntries(ctx, tx, next); err != nil {
			return err
		}
		// Of one entity listed twice, what says more counts: the host before a page on it, a category before none.
		err := execAll(ctx, tx,
			"SET LOCAL work_mem = '64MB'",
			fmt.Sprintf("SELECT pg_advisory_xact_lock(%d)", int64(feedLock)),
			`CREATE TEMPORARY TABLE listed ON COMMIT DROP AS
				SELECT DISTINCT ON (node) * FROM incoming ORDER BY node, page, category = '', category`,
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
		now := s.now().UTC()
		var id int
		err = tx.QueryRow(ctx, `
			INSERT INTO feeds AS f (name, kind, category, source, format, licence, entries, version, imported_at, expires_at)
			VALUES ($1, $2, $3, $4, $5, $6, $7, 1, $8, $9)
			ON CONFLICT (name) DO UPDATE SET kind = EXCLUDED.kind, category = EXCLUDED.category, source = EXCLUDED.source, format = EXCLUDED.format,
				licence = EXCLUDED.licence, entries = EXCLUDED.entries, version = f.version + 1, imported_at = EXCLUDED.imported_at,
				expires_at = EXCLUDED.expires_at
			RETURNING id`,
			f.Name, string(f.Kind), f.Category, f.Source, string(f.Format), f.Licence, change.Entries, now,
			f.ExpiresAt).Scan(&id)
		if err != nil {
			return err
		}
		gone, err := tx.Exec(ctx, "DELETE FROM feed_entries AS e WHERE feed_id = $1 AND NOT EXISTS (SELECT FROM listed AS l WHERE l.node = e.node)", id)
		if err != nil {
			return err
		}
		altered, err := tx.Exec(ctx, `UPDATE feed_entries AS e SET page = l.page, category = l.category FROM listed AS l
			WHERE e.feed_id = $1 AND e.node = l.node AND (e.page, e.category) IS DISTINCT FROM (l.page, l.category)`, id)
		if err != nil {
			return err
		}
		added, err := tx.Exec(ctx, `INSERT INTO feed_entries (feed_id, node, type, value, name, page, category, first_seen)
			SELECT $1, node, type, value, name, page, category, $2 FROM listed AS l
			WHERE NOT EXISTS (SELECT FROM feed_entries AS e WHERE e.feed_id = $1 AND e.node = l.node) ORDER BY node`, id, now)
		if err != nil {
			return err
		}
		change.Removed, change.Altered, change.Added = int(gone.RowsAffected()), int(altered.RowsAffected()),
			int(added.RowsAffected())
		if err := compactEntries(ctx, tx); err != nil {
			return err
		}
		_, err = tx.Exec(ctx, "SELECT pg_notify($1, $2)", channel, string(TopicFeeds))
		return err
	})
	if err != nil {
		return FeedChange{}, fmt.Errorf("importing list %s: %w", f.Name, err)
	}
	return change, nil
}

// copyEntries streams the entries into a temporary table.
func (s *Store) copyEntries(ctx context.Context, tx pgx.Tx, next func() ([]feed.Entry, error)) error {
	_, err := tx.Exec(ctx, `CREATE TEMPORARY TABLE incoming (node bytea, type text, value text, name text, page boolean, category text) ON COMMIT DROP`)
	if err != nil {
		return err
	}
	var entries []feed.Entry
	var broken error // what Postgres says of it is only that the client gave up
	_, err = tx.CopyFrom(ctx, pgx.Identifier{"incoming"}, []string{"node", "type", "value", "name", "page", "category"},
		pgx.CopyFromFunc(func() ([]any, error) {
			for len(entries) == 0 {
				if entries, broken = next(); errors.Is(broken, io.EOF) {
					broken = nil
					return nil, nil
				} else if broken != nil {
					return nil, broken
				}
			}
			e := entries[0]
			entries = entries[1:]
			return []any{s.node(Node{string(e.Type), e.Value}), string(e.Type), e.Value, e.Name, e.Page, e.Category},
				nil
		}))
	return cmp.Or(broken, err)
}

func execAll(ctx context.Context, tx pgx.Tx, statements ...string) error {
	for _, sql := range statements {
		if _, err := tx.Exec(ctx, sql); err != nil {
			return err
		}
	}
	return nil
}

// slowly runs fn in a transaction on a connection of its own, without the deadlines of requests: what works on whole
// tables takes as long as they are large.
func (s *Store) slowly(ctx context.Context, fn func(ctx context.Context, tx pgx.Tx) error) error {
	cfg, err := connConfig(s.url)
	if err != nil {
		return err
	}
	conn, err := pgx.ConnectConfig(ctx, cfg)
	if err != nil {
		return err
	}
	defer conn.Close(context.WithoutCancel(ctx))
	return pgx.BeginFunc(ctx, conn, func(tx pgx.Tx) error { return fn(ctx, tx) })
}

// WithdrawFeed takes a list out of force on every host at once, then deletes its entries. Error: ErrNoFeed.
func (s *Store) WithdrawFeed(ctx context.Context, name string) error {
	err := s.inTx(ctx, func(ctx context.Context, tx bun.Tx) error {
		result, err := tx.NewRaw("DELETE FROM feeds WHERE name = ?", name).Exec(ctx)
		if err != nil {
			return err
		}
		if n, err := result.RowsAffected(); err != nil || n == 0 {
			return errors.Join(err, fmt.Errorf("%w: %s", ErrNoFeed, name))
		}
		return notify(ctx, tx, TopicFeeds)
	})
	if err == nil {
		// Without its row in feeds an entry has no effect. Those that an earlier withdrawal left behind go too.
		err = s.slowly(ctx, func(ctx context.Context, tx pgx.Tx) error {
			err := execAll(ctx, tx, fmt.Sprintf("SELECT pg_advisory_xact_lock(%d)", int64(feedLock)),
				"DELETE FROM feed_entries WHERE feed_id NOT IN (SELECT id FROM feeds)")
			if err != nil {
				return err
			}
			return compactEntries(ctx, tx)
		})
	}
	if err != nil {
		return fmt.Errorf("withdrawing list: %w", err)
	}
	return nil
}

// compactEntries writes the entries anew where most of their pages have come to be empty. Vacuum frees only pages at a
// table's end, and none of an index's: Postgres reckons with all of them, and reads the whole table to find a few dozen
// entries.
func compactEntries(ctx context.Context, tx pgx.Tx) error {
	const few, full = 1000, 10 // pages that may be empty, entries that a page holds at least: some sixty fit
	var pages, left int
	err := tx.QueryRow(ctx, "SELECT pg_relation_size('feed_entries') / 8192, (SELECT count(*) FROM feed_entries)").
		Scan(&pages, &left)
	if err != nil || pages <= few || left > pages*full {
		return err
	}
	err = pgx.BeginFunc(ctx, tx, func(tx pgx.Tx) error {
		return execAll(ctx, tx,
			"CREATE TEMPORARY TABLE kept ON COMMIT DROP AS SELECT * FROM feed_entries",
			// Who waits for this lock holds up every look-up behind: while somebody reads for long, as a backup does,
			// let it be.
			"SET LOCAL lock_timeout = '200ms'",
			"LOCK TABLE feed_entries IN ACCESS EXCLUSIVE MODE",
			"TRUNCATE feed_entries",
			"INSERT INTO feed_entries SELECT * FROM kept",
			"ANALYZE feed_entries")
	})
	if sqlState(err) == "55P03" { // lock_not_available
		return nil
	}
	return err
}

// Feeds lists the imported lists by name, those that have expired included.
func (s *Store) Feeds(ctx context.Context) ([]Feed, error) {
	feeds := []Feed{}
	if err := s.db.NewSelect().Model(&feeds).Order("name").Scan(ctx); err != nil {
		return nil, fmt.Errorf("listing lists: %w", err)
	}
	return feeds, nil
}

// FeedEntry is an entry of a list, to be compared with.
type FeedEntry struct {
	Node     []byte
	Type     string
	Value    string
	Name     string
	Category string // its own, else its list's
}

// FeedEntries returns up to limit entries of a list that have a name, in the order of their nodes from the one after
// the given on. A mere page on a host that is on a good list is left out.
func (s *Store) FeedEntries(ctx context.Context, id int, after []byte, limit int) ([]FeedEntry, error) {
	entries := []FeedEntry{}
	err := s.db.NewRaw(`
		SELECT e.node, e.type, e.value, e.name, coalesce(nullif(e.category, ''), f.category) AS category
		FROM feed_entries AS e JOIN feeds AS f ON f.id = e.feed_id
		WHERE e.feed_id = ?0 AND e.node > ?1 AND e.name <> ''
			AND NOT (e.page AND EXISTS (
				SELECT FROM feed_entries AS o JOIN feeds AS g ON g.id = o.feed_id
				WHERE o.node = e.node AND g.kind = 'good' AND (g.expires_at IS NULL OR g.expires_at > ?3)))
		ORDER BY e.node LIMIT ?2`, id, append([]byte{}, after...), limit, s.now().UTC()).Scan(ctx, &entries)
	if err != nil {
		return nil, fmt.Errorf("reading list: %w", err)
	}
	return entries, nil
}

// Listing is what one list in force says of a node.
type Listing struct {
	Asked     int // which of the nodes that were asked for
	Name      string
	Kind      feed.Kind
	Category  string
	Page      bool
	FirstSeen time.Time
}

// Listings returns what the lists in force say of the given nodes, by one query for all, in the order of the lists'
// names.
func (s *Store) Listings(ctx context.Context, nodes []Node) ([]Listing, error) {
	if len(nodes) == 0 {
		return nil, nil
	}
	keys := make([][]byte, len(nodes))
	asked := map[string][]int{}
	for i, n := range nodes {
		keys[i] = s.node(n)
		asked[string(keys[i])] = append(asked[string(keys[i])], i)
	}
	var rows []struct {
		Node []byte
		Listing
	}
	err := s.db.NewRaw(`
		SELECT e.node, f.name, f.kind, coalesce(nullif(e.category, ''), f.category) AS category, e.page, e.first_seen
		FROM feed_entries AS e JOIN feeds AS f ON f.id = e.feed_id
		WHERE e.node IN (?0) AND (f.expires_at IS NULL OR f.expires_at > ?1) ORDER BY f.name`, bun.List(keys), s.now().UTC()).Scan(ctx, &rows)
	if err != nil && !errors.Is(err, sql.ErrNoRows) {
		return nil, fmt.Errorf("looking entities up in lists: %w", err)
	}
	var found []Listing
	for _, r := range rows {
		for _, i := range asked[string(r.Node)] {
			l := r.Listing
			l.Asked = i
			found = append(found, l)
		}
	}
	return found, nil
}
