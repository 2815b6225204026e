package store

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/netip"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"assay/host/check"
	"assay/host/customer/webhook"
	"assay/host/entity"
	"assay/host/facts/registration"
	"assay/host/facts/reputation"
	"assay/host/lineup/fleet"
	"assay/host/store/postgres/postgrestest"
)

// TestHotStatementsNameTheirNode looks at the plan of every statement that checks, their events and the graph need,
// also within functions, triggers and foreign keys: each scan of a distributed table selects one value of its column.
func TestHotStatementsNameTheirNode(t *testing.T) {
	t.Parallel()
	s, plans := explained(t)
	for _, h := range hotOperations(t, s) {
		plans.take()
		noError(t, h.run())
		problems := plans.take()
		if h.name == applying {
			continue // it looks for contributions of all chains
		}
		for _, problem := range problems {
			if strings.Contains(problem, statement("due_chains")[:30]) { // so do claims
				continue
			}
			t.Errorf("%s: %s", h.name, problem)
		}
	}
}

// hotOperation is something that checks, their events or the graph need.
type hotOperation struct {
	name string // as in docs/scale-out.md
	run  func() error
}

const applying = "apply checks to the graph"

func hotOperations(t *testing.T, s *Store) []hotOperation {
	t.Helper()
	caller := subscriber(t, s)
	poor, key := newKey(t, s, must(s.CreateAccount(t.Context(), plan(t, "pro", 0)))(t))
	quiet := newCaller(t, s, plan(t, "pro", 100)) // has no endpoint
	l := ledgerOn(t, s, LedgerConfig{})
	o := outboxOf(t, s)
	subject := reputation.Subject{Entity: reputation.Node{Kind: "email", Value: "jo@example.org"},
		Parents: []reputation.Node{{Kind: "maildomain", Value: "example.org"}}}
	now, e := time.Now(), parse(t, entity.Email, "jo@example.org")
	var claimed []webhook.Delivery
	return []hotOperation{
		{"authenticate", func() error {
			s.ForgetCallers()
			return errOf(s.Authenticate(t.Context(), key.Secret))
		}},
		{"count a use without a key", func() error {
			return errOf2(s.TakePublic(t.Context(), netip.MustParsePrefix("192.0.2.0/24")))
		}},
		{"record checks without events", func() error {
			return l.Append(t.Context(), decided(quiet, e, check.Block), decided(quiet, e, check.Allow))
		}},
		{"record checks with events", func() error {
			return l.Append(t.Context(), decided(caller, e, check.Block), decided(caller, e, check.Allow))
		}},
		{"record a check with an idempotency key", func() error {
			return l.Append(t.Context(), with(onceAs("key", "request", "answer"), allowed(t, quiet))...)
		}},
		{"look up a kept answer", func() error {
			wantKept(t, "the answer", l, quiet.Account, onceAs("key", "request", ""), "answer")
			return nil
		}},
		{"refuse a check", func() error {
			wantFailure(t, l.Append(t.Context(), allowed(t, poor)), "a check beyond the quota was recorded")
			return nil
		}},
		{"claim an event", func() error {
			claimed = []webhook.Delivery{claimOne(t, o)}
			return nil
		}},
		{"record a failed attempt", func() error { return errOf2(o.Finish(t.Context(), ended(claimed[0], 500))) }},
		{"claim an event of one account", func() (err error) {
			must(s.db.Exec(`UPDATE webhook_events SET next_attempt_at = now()
				WHERE chain = 0 AND state = 'pending'`))(t)
			claimed, err = o.Claim(t.Context(), webhook.ClaimOptions{MaxEvents: 9, MaxPerAccount: 3,
				Only: []string{caller.Account}})
			return err
		}},
		{"record a successful attempt", func() error { return errOf2(o.Finish(t.Context(), ended(claimed[0], 200))) }},
		{applying, func() error { return errOf2(s.applyContributions(t.Context(), func(int, time.Duration) {})) }},
		{"look up lists", func() error { return errOf(s.Listings(t.Context(), subject.Parents)) }},
		{"look up the graph", func() error {
			return errOf(s.GraphAggregates(t.Context(), []reputation.Subject{subject}))
		}},
		{"say that a host runs", func() error {
			return errOf(s.BeatHost(t.Context(), "host_a", "a:1", fleet.State{Activation: 1, Revision: 1}))
		}},
		{"settle rates", func() error {
			return errOf(s.SettleUses(t.Context(), map[string]int64{"key_1": 1, "key_2": 0}))
		}},
		{"keep a registration", func() error {
			r := registration.Record{Outcome: registration.Registered, Fetched: now, NextFetch: now}
			return s.SaveRegistration(t.Context(), "example.org", r)
		}},
		{"look up a registration", func() error { return errOf2(s.Registration(t.Context(), "example.org")) }},
	}
}

// TestHotStatementCheck checks that TestHotStatementsNameTheirNode would find statements that need several nodes.
func TestHotStatementCheck(t *testing.T) {
	t.Parallel()
	s, plans := explained(t)
	for name, c := range map[string]struct {
		sql   string
		found bool
	}{
		"one chain":      {"SELECT FROM webhook_events WHERE chain = 0 AND ref = 'x'", false},
		"no chain":       {"SELECT FROM webhook_events WHERE ref = 'x'", true},
		"several chains": {"SELECT FROM webhook_events WHERE chain IN (0, 1)", true},
		"a chain that a subquery finds": {"SELECT FROM audit_heads WHERE chain = (SELECT a.chain FROM accounts AS a " +
			"WHERE a.id = 'x')", true},
		"a chain that a join finds": {"SELECT FROM audit_heads AS h JOIN accounts AS a ON a.chain = h.chain", true},
		"joined by a named chain": {"SELECT FROM webhook_events AS e JOIN webhook_attempts AS a USING (chain, ref) " +
			"WHERE e.chain = 0", false},
		"a partitioned table": {"SELECT FROM audit_records WHERE ref = 'x'", true},
		"several nodes":       {`SELECT FROM graph_sightings WHERE node IN ('\x00', '\x01')`, false},
		"no node":             {"SELECT FROM graph_sightings WHERE account = 7", true},
		"a reference table":   {"SELECT FROM accounts WHERE plan = 'x'", false},
		"a function":          {"DO $$ BEGIN PERFORM FROM audit_heads WHERE seq = 1 FOR UPDATE; END $$", true},
		"a key without the chain": {`INSERT INTO webhook_events (chain, ref, account_id, sequence, event, occurred_at,
			sealed_payload) VALUES (0, '', 'acct_public', 1, 'check.review', now(), '')
			ON CONFLICT (account_id, sequence) DO NOTHING`, true},
		"a key with the chain": {"INSERT INTO webhook_sequences (account_id, last) VALUES ('acct_public', 1) " +
			"ON CONFLICT (chain, account_id) DO NOTHING", false},
	} {
		plans.take()
		noError(t, errOf(s.db.Exec(c.sql)))
		problems := plans.take()
		holds(t, (len(problems) > 0) == c.found, "%s: found %q", name, problems)
	}
}

// explained opens a store on a database that reports the plan of every statement.
func explained(t *testing.T) (*Store, *plans) {
	t.Helper()
	needsPlainPostgres(t, "it reads the plans of plain Postgres; on Citus, TestShardsOfHotStatements does")
	url := postgrestest.Database(t)
	conn := session(t, url)
	if _, err := conn.Exec(t.Context(), "LOAD 'auto_explain'"); err != nil {
		t.Skipf("this test needs the module auto_explain: %v", err)
	}
	database := value[string](t, conn, "SELECT current_database()")
	for name, setting := range map[string]string{
		"session_preload_libraries": "auto_explain", "auto_explain.log_min_duration": "0",
		"auto_explain.log_nested_statements": "on", "auto_explain.log_format": "json",
		"auto_explain.log_level": "notice", "auto_explain.log_triggers": "on", "client_min_messages": "notice",
	} {
		exec(t, conn, fmt.Sprintf("ALTER DATABASE %s SET %s = '%s'", database, name, setting))
	}
	p := &plans{columns: map[string]string{}, unfit: map[string]bool{}}
	for _, d := range distributedTables {
		p.columns[d.table] = d.column
		rows := must(conn.Query(t.Context(), statement("unfit_keys"), d.table, d.column))(t)
		for rows.Next() {
			var key, drop, replace string
			noError(t, rows.Scan(&key, &drop, &replace))
			p.unfit[key] = true
		}
		noError(t, rows.Err())
	}
	through := proxied(t, url)
	through.OnNotice(p.add)
	s := open(t, through.URL, nil)
	replaceFunctions(t, conn)
	return s, p
}

// replaceFunctions replaces functions by the forms that a cluster runs, and returns their names.
func replaceFunctions(t *testing.T, conn *pgx.Conn) (names []string) {
	t.Helper()
	for _, step := range must(plainFunctions(t.Context(), conn))(t) {
		exec(t, conn, step.statements...)
		names = append(names, step.Name)
	}
	return names
}

// plans collects what is wrong with the plans that a server reports.
type plans struct {
	columns map[string]string // the distribution column of each table
	unfit   map[string]bool   // unique keys that lack it

	mu       sync.Mutex
	problems []string
}

func (p *plans) take() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	found := p.problems
	p.problems = nil
	return found
}

// planNode is a node of a plan in the JSON of EXPLAIN.
type planNode struct {
	Type     string     `json:"Node Type"`
	Table    string     `json:"Relation Name"`
	Index    string     `json:"Index Cond"`
	Recheck  string     `json:"Recheck Cond"`
	Filter   string     `json:"Filter"`
	Arbiters []string   `json:"Conflict Arbiter Indexes"`
	Subplan  string     `json:"Subplan Name"`
	Plans    []planNode `json:"Plans"`
}

var partitionSuffix = regexp.MustCompile(`_(\d{4}_\d{2}|other)$`)

// add reads a notice.
func (p *plans) add(notice []byte) {
	_, text, ok := bytes.Cut(notice, []byte("plan:\n"))
	if !ok {
		return
	}
	text, _, _ = bytes.Cut(text, []byte{0})
	var explained struct {
		Query string `json:"Query Text"`
		Plan  planNode
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if err := json.Unmarshal(text, &explained); err != nil {
		p.problems = append(p.problems, fmt.Sprintf("%v: %s", err, text))
		return
	}
	var found []string // results of subqueries, such as $0
	var visit func(n planNode)
	visit = func(n planNode) {
		if _, result, ok := strings.Cut(n.Subplan, "(returns "); ok {
			found = append(found, strings.Split(strings.TrimSuffix(result, ")"), ",")...)
		}
		for _, child := range n.Plans {
			visit(child)
		}
	}
	visit(explained.Plan)
	p.inspect(explained.Plan, explained.Query, found)
}

// inspect adds the problems of a plan. found holds the parameters that its subqueries compute.
func (p *plans) inspect(n planNode, query string, found []string) {
	column, distributed := p.columns[partitionSuffix.ReplaceAllString(n.Table, "")]
	problem := func(text string) {
		query = strings.Join(strings.Fields(query), " ")
		p.problems = append(p.problems, fmt.Sprintf("%s on %s: %s: %s", n.Type, n.Table, text, query))
	}
	switch {
	case !distributed:
	case n.Type == "ModifyTable":
		for _, key := range n.Arbiters {
			if p.unfit[partitionSuffix.ReplaceAllString(key, "")] {
				problem("the key " + key + " lacks " + column)
			}
		}
	default:
		condition := n.Index + n.Recheck + n.Filter
		named := regexp.MustCompile(`[( .]`+column+` = ([^\s)]+)`).FindAllStringSubmatch(condition, -1)
		if !slices.ContainsFunc(named, func(m []string) bool {
			several := strings.HasPrefix(m[1], "ANY") && column == "chain"
			return !several && !strings.Contains(m[1], "."+column) && !slices.Contains(found, m[1])
		}) {
			problem("no filter by " + column + " in " + condition)
		}
	}
	for _, child := range n.Plans {
		p.inspect(child, query, found)
	}
}
