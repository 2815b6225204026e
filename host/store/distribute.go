package store

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
)

// ErrNoCitus means that a database cannot be distributed.
var ErrNoCitus = errors.New("this database does not have the Citus extension: install Citus on every node, run " +
	"CREATE EXTENSION citus in this database on each, and add the workers on the coordinator with citus_add_node")

// distributedTable is a table that Citus spreads over the nodes by a column.
type distributedTable struct{ table, column string }

// distributedTables lists all of them. Those with the column chain are colocated. A statement that a check needs names
// the distribution column of each of these tables that it uses, so that it runs on one node. All other tables except
// localTables are reference tables: each node has a copy.
var distributedTables = slices.Concat(distributedBy("chain", chainTables...),
	distributedBy("node", "graph_sightings", "graph_edges", "feed_entries"), distributedBy("prefix", "feed_ranks"),
	distributedBy("domain", "registrations"), distributedBy("client", "public_uses"))

var chainTables = []string{
	"audit_heads", // the first, because the functions in delegatedFunctions run where a head is
	"audit_records", "state_records", "audit_anchors", "audit_trees", "audit_tiles", "audit_checkpoints",
	"audit_losses", "audit_acceptances", "erasures", "erased_records", "quota_usage", "key_uses", "ledger_settlements",
	"graph_contributions", "graph_progress", "graph_forgotten", "graph_unreadable", "webhook_events",
	"webhook_attempts", "webhook_sequences", "feedback", "answers", "reviews", "subject_requests", "export_parts",
}

func distributedBy(name string, tables ...string) []distributedTable {
	return column(tables, func(table string) distributedTable { return distributedTable{table, name} })
}

// localTables stay on the coordinator, where all nodes can reach them. A host writes to hosts every two seconds and to
// rate_uses every second, and each change of a reference table is a commit in two phases on all nodes.
var localTables = []string{"hosts", "candidates", "candidate_hosts", "jobs", "rate_uses"}

// Citus refuses to distribute a table that another one refers to, so the foreign key is dropped before the first of the
// two is distributed, and added again with the second.
const (
	dropAttemptsKey = "ALTER TABLE webhook_attempts DROP CONSTRAINT IF EXISTS webhook_attempts_chain_ref_fkey"
	addAttemptsKey  = `ALTER TABLE webhook_attempts ADD CONSTRAINT webhook_attempts_chain_ref_fkey
		FOREIGN KEY (chain, ref) REFERENCES webhook_events ON DELETE CASCADE`
)

// delegatedFunctions touch only rows of the chain that is their first argument. The node that a host calls forwards the
// call to the chain's node.
var delegatedFunctions = []string{"ledger_append", "ledger_settle", "audit_append", "audit_lock", "audit_grow"}

// Step is one step of Distribute.
type Step struct {
	Name  string        `json:"name"`            // of the table or function
	Kind  string        `json:"kind"`            // "table" or "function"
	As    string        `json:"as"`              // "reference", "local", "on every node", or the distribution column
	Keys  []string      `json:"keys,omitempty"`  // unique keys without that column, which were dropped
	Bytes int64         `json:"bytes,omitempty"` // of the table's rows before they were distributed
	Took  time.Duration `json:"took_ns"`

	statements []string
}

// Distribute spreads the tables of a database with the Citus extension over the cluster's nodes, each table in a
// transaction of its own. It skips those that are distributed, so it can be repeated after an interruption and after an
// upgrade that added tables. It returns the steps that it took, or with dry those that it would take, and calls
// progress before each. Hosts that serve meanwhile refuse checks. It fails with ErrNoCitus.
func (s *Store) Distribute(ctx context.Context, dry bool, progress func(done, total int, name string)) (steps []Step,
	err error) {
	conn, err := dial(ctx, s.direct)
	if err == nil {
		defer conn.Close(context.WithoutCancel(ctx))
		steps, err = distribute(ctx, conn, dry, progress)
	}
	return steps, wrap(err, "distributing the database")
}

func distribute(ctx context.Context, conn *pgx.Conn, dry bool, progress func(done, total int, name string)) ([]Step,
	error) {
	var installed bool
	err := conn.QueryRow(ctx, "SELECT EXISTS (SELECT FROM pg_extension WHERE extname = 'citus')").Scan(&installed)
	if err == nil && !installed {
		err = ErrNoCitus
	}
	if err != nil {
		return nil, err
	}
	// The lock ends with the connection. Hosts that start wait for it.
	if _, err := conn.Exec(ctx, "SELECT pg_advisory_lock($1)", int64(migrationLock)); err != nil {
		return nil, err
	}
	steps, err := pendingTables(ctx, conn)
	if err != nil {
		return nil, err
	}
	plain, err := plainFunctions(ctx, conn)
	if err != nil {
		return nil, err
	}
	functions, err := pendingFunctions(ctx, conn)
	steps = slices.Concat(steps, plain, functions)
	if err != nil || dry {
		return steps, err
	}
	for i, step := range steps {
		progress(i, len(steps), step.Name)
		start := time.Now()
		err := pgx.BeginFunc(ctx, conn, func(tx pgx.Tx) error { return execAll(ctx, tx, step.statements...) })
		if err != nil {
			return steps[:i], fmt.Errorf("%s: %w", step.Name, err)
		}
		steps[i].Took = time.Since(start)
	}
	// Citus copies a table's rows to the nodes and keeps the originals, which no statement sees.
	_, err = conn.Exec(ctx, `SELECT truncate_local_data_after_distributing_table(logicalrelid) FROM pg_dist_partition
		WHERE (partmethod = 'h' OR repmodel = 't') AND pg_relation_size(logicalrelid) > 0`)
	return steps, err
}

// pendingTables returns the tables that are not distributed yet: first the reference tables, each after those that it
// refers to.
func pendingTables(ctx context.Context, conn *pgx.Conn) (steps []Step, err error) {
	type pending struct {
		Name   string
		Bytes  int64
		Refers []string
	}
	tables, err := collect[pending](ctx, conn, statement("undistributed_tables"), localTables)
	if err != nil {
		return nil, err
	}
	bytes := map[string]int64{}
	for _, p := range tables {
		if !slices.Contains(localTables, p.Name) {
			bytes[p.Name] = p.Bytes
			continue
		}
		// Distributing a table also distributes those that refer to it.
		steps = append(steps, Step{Name: p.Name, Kind: "table", As: "local", Bytes: p.Bytes,
			statements: []string{fmt.Sprintf(`SELECT citus_add_local_table_to_metadata('%[1]s', true)
				WHERE NOT EXISTS (SELECT FROM pg_dist_partition WHERE logicalrelid = '%[1]s'::regclass)`, p.Name)}})
	}
	chains := "default" // the table that tables of chains are colocated with
	for _, table := range chainTables {
		if _, pending := bytes[table]; !pending {
			chains = table
		}
	}
	for _, d := range distributedTables {
		size, ok := bytes[d.table]
		if !ok {
			continue
		}
		step := Step{Name: d.table, Kind: "table", As: d.column, Bytes: size}
		if d.table == "webhook_events" {
			step.statements = append(step.statements, dropAttemptsKey)
		}
		keys, err := collect[struct{ Name, Drop, Replace string }](ctx, conn, statement("unfit_keys"), d.table,
			d.column)
		if err != nil {
			return nil, err
		}
		for _, k := range keys {
			step.Keys = append(step.Keys, k.Name)
			step.statements = append(step.statements, k.Drop, k.Replace)
		}
		colocation := "default"
		if d.column == "chain" {
			colocation = chains
			if chains == "default" {
				chains = d.table
			}
		}
		step.statements = append(step.statements, fmt.Sprintf(
			"SELECT create_distributed_table('%s', '%s', colocate_with => '%s')", d.table, d.column, colocation))
		if d.table == "webhook_attempts" {
			step.statements = append(step.statements, addAttemptsKey)
		}
		steps = append(steps, step)
		delete(bytes, d.table)
	}
	var references []Step
	for len(bytes) > 0 {
		before := len(bytes)
		for _, p := range tables {
			_, left := bytes[p.Name]
			waits := slices.ContainsFunc(p.Refers, func(name string) bool { _, ok := bytes[name]; return ok })
			if left && !waits {
				references = append(references, Step{Name: p.Name, Kind: "table", As: "reference", Bytes: p.Bytes,
					statements: []string{fmt.Sprintf("SELECT create_reference_table('%s')", p.Name)}})
				delete(bytes, p.Name)
			}
		}
		if len(bytes) == before {
			return nil, fmt.Errorf("tables refer to each other: %v", slices.Sorted(maps.Keys(bytes)))
		}
	}
	return append(references, steps...), nil
}

// plainFunctions returns the functions whose definitions suit only plain Postgres. They reuse generic plans, which
// Citus cannot do. graph_known also joins nodes with their sightings, which Citus cannot do either.
func plainFunctions(ctx context.Context, conn *pgx.Conn) (steps []Step, err error) {
	plain, err := collect[struct{ Name string }](ctx, conn, `SELECT proname::text FROM pg_proc
		WHERE pronamespace = current_schema()::regnamespace AND 'plan_cache_mode=force_generic_plan' = ANY (proconfig)
		ORDER BY proname`)
	for _, f := range plain {
		step := Step{Name: f.Name, Kind: "function", As: "planned for each call",
			statements: []string{"ALTER FUNCTION " + f.Name + " RESET plan_cache_mode"}}
		if f.Name == "graph_known" {
			step.As, step.statements = "one node at a time", []string{statement("citus_graph_known")}
		}
		steps = append(steps, step)
	}
	return steps, err
}

// pendingFunctions returns the functions that are not on every node, or that are not delegated although they should be.
func pendingFunctions(ctx context.Context, conn *pgx.Conn) (steps []Step, err error) {
	functions, err := collect[struct {
		Name, Signature       string
		Everywhere, Delegated bool
	}](ctx, conn, statement("undistributed_functions"), chainTables)
	for _, f := range functions {
		step := Step{Name: f.Name, Kind: "function", As: "on every node"}
		statement := fmt.Sprintf("SELECT create_distributed_function('%s')", f.Signature)
		if slices.Contains(delegatedFunctions, f.Name) {
			step.As = "chain"
			statement = fmt.Sprintf("SELECT create_distributed_function('%s', '$1', '%s', true)", f.Signature,
				chainTables[0])
			f.Everywhere = f.Everywhere && f.Delegated
		}
		step.statements = []string{statement}
		if !f.Everywhere {
			steps = append(steps, step)
		}
	}
	return steps, err
}

func collect[T any](ctx context.Context, conn *pgx.Conn, sql string, args ...any) ([]T, error) {
	rows, err := conn.Query(ctx, sql, args...)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, pgx.RowToStructByPos[T])
}

// distributed reports whether Citus has spread a table over the nodes of a cluster.
func (s *Store) distributed(ctx context.Context, table string) (found bool, err error) {
	// The second statement cannot be planned without Citus.
	err = s.db.NewRaw("SELECT to_regclass('pg_dist_partition') IS NOT NULL").Scan(ctx, &found)
	if err == nil && found {
		err = s.db.NewRaw(`SELECT EXISTS (SELECT FROM pg_dist_partition
			WHERE logicalrelid = to_regclass(?) AND partmethod = 'h')`, table).Scan(ctx, &found)
	}
	return found, err
}
