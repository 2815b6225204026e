package chaos

import (
	"context"
	"errors"

	"github.com/jackc/pgx/v5"

	"assay/registry/fault"
)

// State is the content of a database. Its fields are exported so that tests of the checker can alter them.
type State struct {
	Accounts []Account
	Heads    []Head
	Records  []Record // ordered by chain and number
	Erased   []ErasedRecord
	// How many checks each erasure erased.
	ErasedChecks []ErasedChecks
	Usage        []Usage
	Events       []Event
	Sequences    []Sequence
	Sightings    []Sighting
	Edges        []Edge
	Waiting      int // contributions to the graph that were not applied
	Damaged      int // those that could not be read
}

// Account is an account.
type Account struct {
	ID       string
	Salt     []byte
	Quota    int
	Endpoint bool // has a webhook endpoint
}

// Head is the end of a chain.
type Head struct {
	Chain int
	Seq   int64
	Hash  []byte
}

// Record is a row of the audit log. An erased one is empty but for its place, leaf and hash.
type Record struct {
	Chain                             int
	Seq                               int64
	Kind, At, Ref, Account, Key, Type string
	Pseudonym, Nonce                  []byte
	Score                             int
	Verdict                           string
	Revision                          int64
	Digest, Leaf, Hash                []byte
}

// ErasedRecord names a record that an erasure erased.
type ErasedRecord struct {
	Chain        int
	Seq, Erasure int64
	Leaf, Ref    []byte // Ref is a keyed hash
}

// ErasedChecks is how many checks an erasure erased.
type ErasedChecks struct {
	Chain  int
	Seq    int64 // of the erasure's record
	Checks int
}

// Usage is a count of checks against a quota.
type Usage struct {
	Account, Period string
	Used            int
}

// Event is a webhook event.
type Event struct {
	Ref, Account, Name, State string
	Sequence                  int64
}

// Sequence is the number of an account's last event.
type Sequence struct {
	Account string
	Last    int64
}

// Sighting is a node of the reputation graph as one account saw it.
type Sighting struct {
	Node          []byte
	Account, Kind string
	Checks        int
}

// Edge is a link of two nodes of the reputation graph as one account saw it, stored for each of the two.
type Edge struct {
	Node, Other []byte
	Account     string
	Checks      int
}

// Read reads the state of a database, in one snapshot.
func Read(ctx context.Context, url string) (s *State, err error) {
	defer fault.WrapAll(&err, "reading the database")
	conn, err := pgx.Connect(ctx, url)
	if err != nil {
		return nil, err
	}
	defer func() { _ = conn.Close(ctx) }()
	tx, err := conn.BeginTx(ctx, pgx.TxOptions{IsoLevel: pgx.RepeatableRead, AccessMode: pgx.ReadOnly})
	if err != nil {
		return nil, err
	}
	defer func() { _ = tx.Rollback(ctx) }()
	s = &State{}
	return s, errors.Join(read(ctx, tx, &s.Accounts, `SELECT id, salt, quota,
			EXISTS (SELECT FROM webhook_endpoints AS w WHERE w.account_id = a.id) FROM accounts AS a`),
		read(ctx, tx, &s.Heads, "SELECT chain, seq, hash FROM audit_heads ORDER BY chain"),
		read(ctx, tx, &s.Records, `SELECT chain, seq, kind, CASE WHEN nonce IS NULL THEN '' ELSE
			to_char(recorded_at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"') END, coalesce(ref, ''), account_id,
			key_id,
			type, pseudonym, nonce, score, verdict, revision, digest, leaf, hash
			FROM (SELECT * FROM audit_records UNION ALL SELECT * FROM state_records) AS r ORDER BY chain, seq`),
		read(ctx, tx, &s.Erased, "SELECT chain, seq, erasure, leaf, ref FROM erased_records"),
		read(ctx, tx, &s.ErasedChecks, "SELECT chain, seq, checks FROM erasures"),
		read(ctx, tx, &s.Usage, "SELECT account_id, period::text, used FROM quota_usage"),
		read(ctx, tx, &s.Events, "SELECT ref, account_id, event, state, sequence FROM webhook_events"),
		read(ctx, tx, &s.Sequences, "SELECT account_id, last FROM webhook_sequences"),
		read(ctx, tx, &s.Sightings, `SELECT node, coalesce(a.id, account::text), kind, checks
			FROM graph_sightings AS g LEFT JOIN accounts AS a ON graph_account(a.id) = g.account`),
		read(ctx, tx, &s.Edges, `SELECT node, other, coalesce(a.id, account::text), checks
			FROM graph_edges AS g LEFT JOIN accounts AS a ON graph_account(a.id) = g.account`),
		tx.QueryRow(ctx, "SELECT count(*) FROM graph_contributions").Scan(&s.Waiting),
		tx.QueryRow(ctx, "SELECT count(*) FROM graph_unreadable").Scan(&s.Damaged))
}

// read appends the rows of a query, whose columns are in the order of the fields of T.
func read[T any](ctx context.Context, tx pgx.Tx, into *[]T, query string) error {
	rows, err := tx.Query(ctx, query)
	if err != nil {
		return err
	}
	*into, err = pgx.CollectRows(rows, pgx.RowToStructByPos[T])
	return err
}
