//go:build citus

package store

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"net"
	"net/url"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"

	"assay/host/check"
	"assay/host/entity"
	"assay/host/lineup/fleet"
	"assay/host/store/postgres/postgrestest"
	"assay/registry"
)

// TestDistributeFullDatabase distributes a database with records, in two parts.
func TestDistributeFullDatabase(t *testing.T) {
	t.Parallel()
	s, l, caller := newLedger(t, nil, LedgerConfig{})
	for range 20 {
		noError(t, l.Append(t.Context(), decided(caller, parse(t, entity.Email, "jo@example.org"), check.Block)))
	}
	conn := session(t, s.url)
	exec(t, conn, "SET client_min_messages = warning",
		"SELECT undistribute_table('accounts', cascade_via_foreign_keys => true)",
		"SELECT undistribute_table('graph_sightings')", "SELECT undistribute_table('audit_records')",
		"SELECT undistribute_table('audit_heads')")
	expect(t, "functions that are lost", value[int](t, conn,
		"SELECT count(*) FROM pg_proc WHERE proname IN ('audit_lock', 'account_lock', 'graph_rows')"), 0)
	noError(t, openOnce(t.Context(), configOf(s.url, nil))) // as the command does
	plan := must(s.Distribute(t.Context(), true, noProgress))(t)
	mustHold(t, len(plan) >= 10, "%d steps are due, want at least 10: %v", len(plan), plan)
	ctx, interrupt := context.WithCancel(t.Context())
	defer interrupt()
	done, err := s.Distribute(ctx, false, func(i, _ int, _ string) {
		if i == len(plan)/2 {
			interrupt()
		}
	})
	wantError(t, "an interrupted run", err, context.Canceled)
	expect(t, "steps of both runs", len(done)+len(must(s.Distribute(t.Context(), false, noProgress))(t)), len(plan))
	expect(t, "steps left", len(must(s.Distribute(t.Context(), false, noProgress))(t)), 0)
	noError(t, l.Append(t.Context(), decided(caller, parse(t, entity.Email, "jo@example.org"), check.Block)))
	expect(t, "records", value[int](t, conn, "SELECT count(*) FROM audit_records WHERE kind = 'check'"), 21)
	expect(t, "checks counted", value[int](t, conn, "SELECT used FROM quota_usage"), 21)
	expect(t, "records left on the coordinator", value[int](t, conn,
		"SELECT sum(pg_relation_size(logicalrelid))::int FROM pg_dist_partition WHERE partmethod = 'h'"), 0)
}

// TestHostsThroughWorkers opens a store on each worker, as hosts of a large cluster do. They record checks, see each
// other, and follow what is activated on the coordinator.
func TestHostsThroughWorkers(t *testing.T) {
	t.Parallel()
	s := newStore(t, nil)
	caller := subscriber(t, s)
	noError(t, s.PublishPlugin(t.Context(), module(t, "probe", "Probes"), "1.0.0", "", nil))
	revision := must(activate(t.Context(), s, lineupOf("probe@1.0.0"), registry.OriginOperator, ""))(t)
	noError(t, s.Propose(t.Context(), fleet.Candidate{ID: "cand_1", Document: "{}"}))
	conn := session(t, s.url)
	rows := must(conn.Query(t.Context(), `SELECT nodeport FROM pg_dist_node WHERE groupid > 0 ORDER BY nodeport`))(t)
	ports := must(pgx.CollectRows(rows, pgx.RowTo[int]))(t)
	for _, port := range ports {
		at := must(url.Parse(s.url))(t)
		at.Host = net.JoinHostPort(at.Hostname(), strconv.Itoa(port))
		worker := must(Open(t.Context(), Config{URL: at.String(), DirectURL: s.url, Keys: testRing,
			Logger: discard()}))(t)
		defer worker.Close()
		l := ledgerOn(t, worker, LedgerConfig{})
		name := fmt.Sprintf("host_%d", port)
		for range 2 {
			noError(t, errOf(worker.BeatHost(t.Context(), name, name, fleet.State{Revision: revision})))
			noError(t, worker.Answer(t.Context(), fleet.Answer{Candidate: "cand_1", Host: name, Progress: fleet.Ready}))
			e := parse(t, entity.Email, "jo@example.org")
			noError(t, l.Append(t.Context(), of(revision, decided(caller, e, check.Block))))
		}
		wantError(t, "a check under no lineup", l.Append(t.Context(), of(revision+9, allowed(t, caller))),
			check.ErrRevision)
	}
	expect(t, "hosts", len(must(s.Hosts(t.Context()))(t)), len(ports))
	expect(t, "answers", len(must(s.Answers(t.Context(), "cand_1"))(t)), len(ports))
	noError(t, s.WithdrawCandidate(t.Context(), "cand_1"))
	expect(t, "answers after the end", len(must(s.Answers(t.Context(), "cand_1"))(t)), 0)
	expect(t, "records", value[int](t, conn, "SELECT count(*) FROM audit_records WHERE kind = 'check'"), 2*len(ports))
}

// TestShardsOfHotStatements compares the shards that Citus uses with the table in docs/scale-out.md.
func TestShardsOfHotStatements(t *testing.T) {
	t.Parallel()
	address := postgrestest.Database(t)
	conn := session(t, address)
	database := value[string](t, conn, "SELECT current_database()")
	for name, setting := range map[string]string{
		"citus.log_remote_commands": "on", "citus.log_local_commands": "on", "client_min_messages": "notice",
	} {
		onEachNode(t, conn, fmt.Sprintf("ALTER DATABASE %s SET %s = '%s'", database, name, setting))
	}
	r := &remote{shards: map[string]string{}, columns: map[string]string{}, used: map[string]bool{}}
	for _, d := range distributedTables {
		r.columns[d.table] = d.column
	}
	rows := must(conn.Query(t.Context(),
		"SELECT shardid::text, logicalrelid::text, shardminvalue FROM pg_dist_shard"))(t)
	for rows.Next() {
		var id, table string
		var least *string
		noError(t, rows.Scan(&id, &table, &least))
		if column := r.columns[partitionSuffix.ReplaceAllString(table, "")]; column != "" {
			r.shards[id] = column + " " + *least // tables with a chain are colocated
		}
	}
	noError(t, rows.Err())
	documented := documentedShards(t)
	through := proxied(t, address)
	through.OnNotice(r.add)
	for _, h := range hotOperations(t, open(t, through.URL, nil)) {
		r.take()
		noError(t, h.run())
		got, want := r.take(), documented[h.name]
		expect(t, h.name, got, want)
		delete(documented, h.name)
	}
	holds(t, len(documented) == 0, "docs/scale-out.md has rows for what is not run here: %v", documented)
}

// documentedShards returns the rows of the table in docs/scale-out.md without their first cell.
func documentedShards(t *testing.T) map[string]string {
	t.Helper()
	text := string(must(os.ReadFile("../../docs/scale-out.md"))(t))
	_, table, _ := strings.Cut(text, "| operation | shards of chains |")
	table, _, _ = strings.Cut(table, "\n\n")
	found := map[string]string{}
	for _, line := range strings.Split(table, "\n")[2:] {
		name, rest, _ := strings.Cut(strings.Trim(line, "| "), " | ")
		found[name] = rest
	}
	return found
}

// remote collects what the machines of a cluster send each other, and do themselves.
type remote struct {
	columns map[string]string // the distribution column of each table
	shards  map[string]string // column and range of each shard; tables with the same ones are on the same machine

	mu       sync.Mutex
	used     map[string]bool
	prepared bool
}

var shardNumber = regexp.MustCompile(`_(\d{5,})\b`)

// add reads a notice.
func (r *remote) add(notice []byte) {
	for field := range bytes.SplitSeq(notice, []byte{0}) {
		statement, ok := bytes.CutPrefix(field, []byte("Missuing "))
		if !ok {
			statement, ok = bytes.CutPrefix(field, []byte("Mexecuting the command locally: "))
		}
		if !ok {
			continue
		}
		r.mu.Lock()
		r.prepared = r.prepared || bytes.HasPrefix(statement, []byte("PREPARE TRANSACTION"))
		for _, m := range shardNumber.FindAllSubmatch(statement, -1) {
			if shard, ok := r.shards[string(m[1])]; ok {
				r.used[shard] = true
			}
		}
		r.mu.Unlock()
	}
}

// take returns what was collected in the form of a row of the table: the numbers of shards by chain and by other
// columns, and whether a commit had two phases.
func (r *remote) take() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	byChain, others := 0, 0
	for _, shard := range slices.Sorted(maps.Keys(r.used)) {
		if strings.HasPrefix(shard, "chain ") {
			byChain++
		} else {
			others++
		}
	}
	commit := map[bool]string{true: "two phases", false: "one"}[r.prepared]
	r.used, r.prepared = map[string]bool{}, false
	return fmt.Sprintf("%d | %d | %s", byChain, others, commit)
}
