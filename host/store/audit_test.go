package store

import (
	"bytes"
	"cmp"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/uptrace/bun"

	"assay/host/access/apikey"
	"assay/host/audit"
	"assay/host/check"
	"assay/host/entity"
	"assay/host/store/postgres/postgrestest"
)

func TestAuditRowRecordsTheDecision(t *testing.T) {
	t.Parallel()
	s, l, caller := newVerified(t, nil, LedgerConfig{})
	r := at(decided(caller, parse(t, entity.Email, "jane@example.org"), check.Review), noon.Add(7*time.Millisecond))
	noError(t, l.Append(t.Context(), r))
	for row, err := range s.Rows(t.Context(), 0, 0, 1) {
		noError(t, err)
		got := row.Record
		got.Pseudonym = nil
		want := audit.Record{
			Kind: audit.Check, At: "2031-05-20T12:00:00.007Z", Ref: r.Decision.Ref, Account: caller.Account,
			Key: caller.Key, Type: "email", Score: 55, Verdict: "review", Revision: lasting,
		}
		expect(t, "record", fmt.Sprint(got), fmt.Sprint(want))
		holds(t, len(row.Nonce) == audit.NonceBytes && !bytes.Equal(row.Nonce, make([]byte, audit.NonceBytes)),
			"nonce %x", row.Nonce)
	}

	// Pseudonyms of one entity are equal within an account only.
	mine, theirs := caller, newCaller(t, s, plan(t, "pro", 1500))
	sameAccount, _ := newKey(t, s, mine.Account)
	iban, domain := parse(t, entity.IBAN, "DE89370400440532013000"), parse(t, entity.Domain, "example.org")
	pseudonym := func(caller check.Caller, e entity.Entity) string {
		t.Helper()
		r := decided(caller, e, check.Allow)
		noError(t, l.Append(t.Context(), r))
		return one[string](t, s, "SELECT encode(pseudonym, 'hex') FROM audit_records WHERE ref = ?", r.Decision.Ref)
	}
	expect(t, "pseudonym by another key", pseudonym(sameAccount, iban), pseudonym(mine, iban))
	holds(t, pseudonym(mine, iban) != pseudonym(theirs, iban), "two accounts have the same pseudonym for an entity")
	holds(t, pseudonym(mine, iban) != pseudonym(mine, domain), "two entities have the same pseudonym")
	expect(t, "nodes that equal a pseudonym", rowsOf(t, s, `graph_sightings
		WHERE node IN (SELECT pseudonym FROM audit_records WHERE pseudonym <> '')`), 0)
}

// No table contains the value of a checked entity, an API key or a webhook secret.
func TestNoRawValueInAnyTable(t *testing.T) {
	t.Parallel()
	s := newStore(t, nil)
	l := ledgerOn(t, s, LedgerConfig{})
	account := must(s.CreateAccount(t.Context(), plan(t, "pro", 1500)))(t)
	caller, key := newKey(t, s, account)
	secret := must(s.SetEndpoint(t.Context(), account, "https://receiver.example/hook"))(t)
	raw := map[entity.Type]string{
		entity.Domain: "login.paypa1-secure.co.uk", entity.Email: "Jane.Roe+shop@mailbox-example.net",
		entity.Phone: "+49 151 23456789", entity.IBAN: "DE89 3704 0044 0532 0130 00",
	}
	secrets := []string{key.Secret, strings.TrimPrefix(key.Secret, "assay_"), secret,
		strings.TrimPrefix(secret, "whsec_")}
	for typ, written := range raw {
		e := parse(t, typ, written)
		secrets = append(secrets, written, e.Value)
		for _, h := range e.Parents() {
			secrets = append(secrets, h.Value)
		}
		for _, verdict := range []check.Verdict{check.Allow, check.Review, check.Block} {
			r := decided(caller, e, verdict)
			r.Decision.Query = written
			for other, text := range raw {
				if other != typ {
					r.Linked = append(r.Linked, parse(t, other, text))
				}
			}
			noError(t, l.Append(t.Context(), r))
		}
	}
	dump := strings.ToLower(dumpTables(t, s))
	mustHold(t, strings.Contains(dump, caller.Account[5:]) || strings.Contains(dump, strings.ToLower(caller.Account)),
		"the dump does not contain the account")
	expect(t, "payloads", rowsOf(t, s, "webhook_events WHERE sealed_payload IS NOT NULL"), 8)
	for _, text := range secrets {
		text = strings.ToLower(text)
		holds(t, !strings.Contains(dump, text) && !strings.Contains(dump, hex.EncodeToString([]byte(text))),
			"the database contains %q", text)
	}
}

// dumpTables returns every row of every table as text, with bytea in hexadecimal.
func dumpTables(t *testing.T, s *Store) string {
	t.Helper()
	var tables []string
	noError(t, s.db.NewRaw(`SELECT c.oid::regclass::text
		FROM pg_class AS c JOIN pg_namespace AS n ON n.oid = c.relnamespace
		WHERE c.relkind = 'r' AND n.nspname = 'public'`).Scan(t.Context(), &tables))
	mustHold(t, len(tables) >= 15, "found only the tables %v", tables)
	var dump strings.Builder
	for _, table := range tables {
		var rows []string
		noError(t, s.db.NewRaw("SELECT r::text FROM "+table+" AS r").Scan(t.Context(), &rows))
		slices.Sort(rows)
		fmt.Fprintf(&dump, "%s\n%s\n", table, strings.Join(rows, "\n"))
	}
	return dump.String()
}

// Records are read page by page. A row with an altered recorded_at would be pruned too early or never.
func TestRowsArePaged(t *testing.T) {
	t.Parallel()
	s, l, caller := newLedger(t, nil, LedgerConfig{})
	noError(t, errors.Join(appendAll(t, allowedMany(t, caller, 7), l)...))
	log := AuditLog{db: s.db}
	for name, test := range map[string]struct {
		after, until int64
		want         []int64
	}{
		"all":           {0, 7, []int64{1, 2, 3, 4, 5, 6, 7}},
		"some":          {3, 5, []int64{4, 5}},
		"past the end":  {6, 99, []int64{7}},
		"the wrong way": {5, 2, nil},
	} {
		var got []int64
		for row, err := range log.Rows(t.Context(), 0, test.after, test.until) {
			noError(t, err)
			got = append(got, row.Seq)
		}
		noDiff(t, name, test.want, got)
	}
	for _, err := range log.Rows(t.Context(), 0, 0, 7) {
		noError(t, err)
		break // the iterator must stop
	}
	conn := session(t, s.url)
	if !onCitus() { // which refuses the alteration
		exec(t, conn, "UPDATE audit_records SET recorded_at = recorded_at + interval '1 ms' WHERE kind = 'check'")
		err := verifyAuditLog(t, s)
		wantErrorText(t, "verifying", err, "does not match its leaf")
		holds(t, errors.As(err, new(*audit.BreakError)), "%v, want a break", err)
	}
	exec(t, conn, `UPDATE audit_records SET hash = '\x00' WHERE seq = 7`)
	var errs []error
	for _, err := range log.Rows(t.Context(), 0, 6, 7) {
		errs = append(errs, err)
	}
	holds(t, len(errs) == 1 && errors.As(errs[0], new(*audit.BreakError)), "a hash of one byte: %v, want a break", errs)
}

// Rows with a duplicate number are all yielded, even across a page boundary.
func TestPagingKeepsDuplicateNumbers(t *testing.T) {
	t.Parallel()
	s := newStore(t, nil)
	exec(t, session(t, s.url), fmt.Sprintf(`INSERT INTO audit_records (chain, seq, recorded_at, kind, leaf, hash)
		SELECT 0, least(n, %d), '2031-05-20T12:00:00Z'::timestamptz + n * interval '1 microsecond', 'erased',
			sha256('leaf'), sha256('hash')
		FROM generate_series(1, %[1]d + 2) AS n`, auditPage))
	rows := 0
	for row, err := range s.Rows(t.Context(), 0, 0, auditPage) {
		noError(t, err)
		rows++
		mustHold(t, row.Seq == int64(min(rows, auditPage)), "row %d has number %d", rows, row.Seq)
	}
	expect(t, "rows", rows, auditPage+2)
}

// An anchor must match the chain when it is kept. Keeping it again has no effect.
func TestKeepAnchor(t *testing.T) {
	t.Parallel()
	now := day(2021, time.January, 5)
	s, l, caller := newLedger(t, func() time.Time { return now }, LedgerConfig{})
	appendOne(t, l, recordAt(t, caller, "example.org", now))
	now = day(2022, time.March, 10)
	due := must(s.AuditDue(t.Context()))(t)
	due[0].Hash[0]++
	wantFailure(t, s.KeepAnchor(t.Context(), due[0], "a note"), "an anchor with a wrong hash was kept")
	expect(t, "anchors", rowsOf(t, s, "audit_anchors"), 0)
	due[0].Hash[0]--
	for range 2 { // the second time as if another host had kept it
		noError(t, s.KeepAnchor(t.Context(), due[0], must(testSigner().Anchor(due[0]))(t)))
	}
	expect(t, "pruning records", rowsOf(t, s, "audit_records WHERE kind = 'pruning'"), 1)
	expect(t, "anchors of another run", prune(t, s), 0)
	verifyLedger(t, s)
	exec(t, session(t, s.url), "UPDATE audit_anchors SET seq = seq + 1")
	wantErrorText(t, "a moved anchor", verifyAuditLog(t, s), "not signed by this host's key")
}

func TestCosignedCheckpoints(t *testing.T) {
	t.Parallel()
	url := postgrestest.Database(t)
	s, db := open(t, url, nil), session(t, url)
	const one, two = "\u2014 w1 AAAA\n", "\u2014 w11 BBBB\n"
	notes := map[int64]string{4: "four\n", 6: "six\n", 7: "seven\n", 9: "nine\n"}
	for size, note := range notes {
		noError(t, s.KeepCheckpoints(t.Context(), []Tree{{TreeHead: audit.TreeHead{Size: size}}}, []string{note}))
	}
	for _, c := range []struct {
		size        int64
		name, lines string
	}{{4, "w1", one}, {6, "w11", two}, {6, "w1", one}, {6, "w1", "\u2014 w1 CCCC\n"}, {5, "w1", one}} {
		noError(t, s.KeepCosignature(t.Context(), 0, c.size, c.name, c.lines))
	}
	expect(t, "the newest checkpoint", must(s.NewestCheckpoint(t.Context(), 0))(t), "nine\n")
	for size, want := range map[int64]string{0: "six\n" + two + one, 6: "six\n" + two + one, 7: ""} {
		expect(t, "the newest cosigned checkpoint", must(s.NewestCosigned(t.Context(), 0, size))(t), want)
	}
	expect(t, "that of another chain", must(s.NewestCosigned(t.Context(), 1, 0))(t), "")

	// Of an hour, the newest checkpoint is kept, and the newest that is cosigned.
	exec(t, db, "UPDATE audit_checkpoints SET signed_at = date_trunc('hour', now()) - interval '2 days'")
	noError(t, s.ThinCheckpoints(t.Context()))
	expect(t, "sizes that are kept", value[string](t, db,
		"SELECT string_agg(size::text, ' ' ORDER BY size) FROM audit_checkpoints"), "6 9")
}

func TestStateOfTheDatabase(t *testing.T) {
	t.Parallel()
	s, l, caller := newLedger(t, nil, LedgerConfig{})
	conn := session(t, s.url)
	expect(t, "empty backlog", must(s.WebhookBacklog(t.Context()))(t), WebhookBacklog{})
	expect(t, "empty backlog of the graph", must(s.GraphBacklog(t.Context()))(t), GraphBacklog{})
	must(s.SetEndpoint(t.Context(), caller.Account, "https://receiver.example/hook"))(t)
	blocked(t, l, caller, 3)
	// One was tried without success and waits, another has been due for a minute, and a third one is delivered.
	exec(t, conn,
		"UPDATE webhook_events SET next_attempt_at = now() + interval '1 hour', attempts = 1 WHERE sequence = 1",
		`UPDATE webhook_events SET next_attempt_at = now() - interval '1 minute' WHERE sequence = 2`,
		`UPDATE webhook_events SET state = 'delivered', sealed_payload = NULL, next_attempt_at = NULL,
			settled_at = now() WHERE sequence = 3`,
		`UPDATE webhook_endpoints SET failing_since = now(), failed_at = now()`,
		"UPDATE graph_contributions SET added_at = now() - interval '1 minute'")
	got := must(s.WebhookBacklog(t.Context()))(t)
	holds(t, got.Late >= time.Minute && got.Late <= time.Hour, "the oldest event is late by %v, want about a minute",
		got.Late)
	got.Late = 0
	expect(t, "backlog", got, WebhookBacklog{Pending: 2, Due: 1, Retried: 1, Failing: 1})
	graph := must(s.GraphBacklog(t.Context()))(t)
	holds(t, graph.Checks == 3 && graph.Oldest >= time.Minute && !graph.Clipped,
		"the backlog is %+v, want 3 checks that have waited for a minute", graph)
	noError(t, s.CatchUp(t.Context()))
	expect(t, "applied backlog", must(s.GraphBacklog(t.Context()))(t), GraphBacklog{})

	// A damaged chain is described.
	before := must(s.ChainStates(t.Context()))(t)
	appendOne(t, l, allowed(t, caller))
	exec(t, conn, "CREATE TABLE kept AS TABLE audit_heads")
	for _, test := range []struct{ change, damage string }{
		{"SELECT", ""},
		{"UPDATE audit_heads SET hash = sha256('other')", "its head differs from its last record"},
		{`UPDATE audit_heads SET hash = '\x00'`, "its head's hash is not 32 bytes long"},
		{"INSERT INTO audit_heads SELECT chain, seq + 1, hash FROM audit_heads", "it has more than one head"},
		{"DELETE FROM audit_records", "its last record is missing"},
	} {
		exec(t, conn, test.change)
		after := must(s.ChainStates(t.Context()))(t)
		holds(t, len(before) == 3 && len(after) == 3 && after[0].Records > before[0].Records &&
			after[0].Damage == test.damage, "before the check %+v, after %q %+v", before, test.change, after)
		holds(t, test.damage != "" || !after[0].At.IsZero(), "the time of the last record is missing")
		exec(t, conn, "DELETE FROM audit_heads", "INSERT INTO audit_heads TABLE kept")
	}
}

// verifyLedger checks the invariants of a database. Each chain verifies from its beginning or newest anchor to its
// head, and contains every record once. Each account's counts add up to its checks, unless some were erased or pruned.
func verifyLedger(t testing.TB, s *Store) {
	t.Helper()
	noError(t, verifyAuditLog(t, s))
	records := one[int64](t, s, `SELECT
		sum(seq - (SELECT coalesce(max(seq), 0) FROM audit_anchors AS a WHERE a.chain = h.chain))
		FROM audit_heads AS h`)
	const counted = `SELECT count(*) || ' ' ||
			count(DISTINCT ref) + count(*) FILTER (WHERE kind = 'erased' AND ref IS NULL)
		FROM (SELECT ref, kind FROM audit_records UNION ALL SELECT ref, kind FROM state_records) AS r`
	expect(t, "records and distinct references", one[string](t, s, counted), fmt.Sprint(records, " ", records))
	// In queries of their own: as subqueries they make Citus count some accounts once for each shard.
	var erased []string
	noError(t, s.db.NewRaw("SELECT DISTINCT account_id FROM audit_records WHERE kind = 'erasure'").
		Scan(t.Context(), &erased))
	pruned := one[bool](t, s, "SELECT count(*) > 0 FROM audit_anchors")
	wrong := rowsOf(t, s, `(SELECT account_id, chain, sum(used) AS used FROM quota_usage GROUP BY 1, 2) AS u
		FULL JOIN
			(SELECT account_id, chain, count(*) AS used
			FROM audit_records WHERE kind = 'check' AND account_id <> ? GROUP BY 1, 2) AS r USING (account_id, chain)
		WHERE u.used IS DISTINCT FROM r.used
			AND account_id NOT IN (?)`, publicAccount, bun.List(append(erased, "")))
	holds(t, wrong == 0 || pruned, "the counts of %d accounts differ from their numbers of checks", wrong)
}

// recorded returns the number of audit records with a reference.
func recorded(t *testing.T, s *Store, ref string) int {
	t.Helper()
	return rowsOf(t, s, "audit_records WHERE ref = ?", ref)
}

// testSigner returns the signer of checkpoints and anchors.
func testSigner() *audit.Signer { return audit.NewSigner("test", testRing.SignSeed) }

// verifyAuditLog verifies each chain in one snapshot.
func verifyAuditLog(t testing.TB, s *Store) error {
	t.Helper()
	return s.ReadAuditLog(t.Context(), verifyChains)
}

func verifyChains(ctx context.Context, log AuditLog) error {
	heads, err := log.Heads(ctx)
	if err != nil {
		return err
	}
	for _, head := range heads {
		anchors, err := log.Anchors(ctx, head.Chain, testSigner().Public)
		if err != nil {
			return err
		}
		start := audit.Genesis(head.Chain)
		if n := len(anchors); n > 0 {
			start = anchors[n-1].Head
		}
		v := audit.NewVerifier(start, testSigner().Public, nil)
		// There is no upper bound, because a record after the head would be an error as well.
		for row, err := range log.Rows(ctx, head.Chain, start.Seq, 1<<62) {
			if err == nil {
				err = v.Add(row)
			}
			if err != nil {
				return err
			}
		}
		if err := v.Close(head); err != nil {
			return err
		}
	}
	return nil
}

// wantStates checks that the last record of each account, key and list is about its row as it is stored.
func wantStates(t *testing.T, s *Store) {
	t.Helper()
	recorded := map[[2]string]audit.Hash{} // by type and ID
	noError(t, s.ReadAuditLog(t.Context(), func(ctx context.Context, log AuditLog) error {
		for _, head := range must(log.Heads(ctx))(t) {
			for row, err := range log.Rows(ctx, head.Chain, 0, 1<<62) {
				if err != nil {
					return err
				}
				if r := row.Record; r.Kind == audit.State {
					name := [2]string{r.Type, cmp.Or(r.Key, r.Account)}
					delete(recorded, name)
					if r.Digest != nil { // it was not removed
						recorded[name] = audit.Hash(r.Digest)
					}
				}
			}
		}
		stored, err := log.States(ctx)
		for _, state := range stored {
			name := [2]string{state.Type, state.ID}
			expect(t, fmt.Sprint("the last record of ", name), recorded[name], audit.Hash(state.Digest))
			delete(recorded, name)
		}
		return err
	}))
	holds(t, len(recorded) == 0, "recorded, but not stored: %v", recorded)
}

// Every way in which keys are issued and end leaves records of them. Those of billing are in its own tests.
func TestStatesAreRecorded(t *testing.T) {
	t.Parallel()
	s := newStore(t, nil)
	caller := newCaller(t, s, plan(t, "pro", 10))
	limited := must(s.IssueKey(t.Context(), caller.Account, apikey.Wanted{Name: "limited", Lifetime: time.Hour,
		Limits: apikey.Limits{Scopes: []apikey.Scope{apikey.ScopeCheck}, Test: true,
			Networks: must(apikey.ParseNetworks([]string{"192.0.2.0/24"}))(t)}}))(t)
	must(s.RotateKey(t.Context(), caller.Account, limited.ID, time.Minute))(t)
	must(s.RotateKey(t.Context(), caller.Account, caller.Key, time.Minute))(t)
	noError(t, s.RevokeKey(t.Context(), caller.Key))
	wantError(t, "revoking it again", s.RevokeKey(t.Context(), caller.Key), apikey.ErrNotFound)
	noError(t, s.SetQuota(t.Context(), caller.Account, 20))
	wantStates(t, s)
	verifyLedger(t, s)
	expect(t, "records of the account", one[string](t, s, `SELECT string_agg(concat_ws(' ', type, verdict,
		nullif(score, 0), CASE WHEN revision > 0 THEN 'ends' END), ', ' ORDER BY seq)
		FROM state_records WHERE account_id = ?`, caller.Account),
		"account pro 10, key valid, key valid ends, key valid ends, key valid ends, key valid, key valid ends, "+
			"key revoked ends, account pro 20")
}
