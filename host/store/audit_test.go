package store

import (
	"bytes"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"assay/host/audit"
	"assay/host/check"
	"assay/host/entity"
)

func TestPseudonymsAreEqualWithinAnAccountOnly(t *testing.T) {
	t.Parallel()
	s := newStore(t, nil)
	l := ledgerOn(t, s, LedgerConfig{})
	mine, theirs := newCaller(t, s, plan(t, "pro", 1500)), newCaller(t, s, plan(t, "pro", 1500))
	sameAccount, _ := newKey(t, s, mine.Account)
	iban, domain := parse(t, entity.IBAN, "DE89370400440532013000"), parse(t, entity.Domain, "example.org")
	pseudonym := func(caller check.Caller, e entity.Entity) string {
		t.Helper()
		r := decided(caller, e, check.Allow)
		noError(t, l.Append(t.Context(), r))
		return one[string](t, s, "SELECT encode(pseudonym, 'hex') FROM audit_records WHERE ref = ?", r.Decision.Ref)
	}
	if a, b := pseudonym(mine, iban), pseudonym(sameAccount, iban); a != b {
		t.Errorf("one entity of one account has pseudonyms %s and %s", a, b)
	}
	if a, b := pseudonym(mine, iban), pseudonym(theirs, iban); a == b {
		t.Error("two accounts have the same pseudonym for an entity")
	}
	if a, b := pseudonym(mine, iban), pseudonym(mine, domain); a == b {
		t.Error("two entities have the same pseudonym")
	}
	nodes := one[int](t, s, `SELECT count(*) FROM graph_sightings
		WHERE node IN (SELECT pseudonym FROM audit_records WHERE pseudonym <> '')`)
	expect(t, "graph nodes that equal a pseudonym in the audit log", nodes, 0)
	verifyLedger(t, s)
}

func TestAuditRowRecordsTheDecision(t *testing.T) {
	t.Parallel()
	s, l, caller := newLedger(t, nil, LedgerConfig{})
	r := at(decided(caller, parse(t, entity.Email, "jane@example.org"), check.Review), noon.Add(7*time.Millisecond))
	noError(t, l.Append(t.Context(), r))
	for row, err := range (AuditLog{db: s.db}).Rows(t.Context(), 0, 0, 1) {
		noError(t, err)
		got := row.Record
		got.Pseudonym = nil
		want := audit.Record{
			Kind: audit.Check, At: "2031-05-20T12:00:00.007Z", Ref: r.Decision.Ref, Account: caller.Account,
			Key: caller.Key, Type: "email", Score: 55, Verdict: "review", Revision: lasting,
		}
		expect(t, "record", fmt.Sprint(got), fmt.Sprint(want))
		if len(row.Nonce) != audit.NonceBytes || bytes.Equal(row.Nonce, make([]byte, audit.NonceBytes)) {
			t.Errorf("nonce %x", row.Nonce)
		}
	}
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
	if !strings.Contains(dump, caller.Account[5:]) && !strings.Contains(dump, strings.ToLower(caller.Account)) {
		t.Fatal("the dump does not contain the account")
	}
	if n := one[int](t, s, "SELECT count(*) FROM webhook_events WHERE sealed_payload IS NOT NULL"); n != 8 {
		t.Fatalf("%d sealed payloads, want 8", n)
	}
	for _, text := range secrets {
		text = strings.ToLower(text)
		if strings.Contains(dump, text) || strings.Contains(dump, hex.EncodeToString([]byte(text))) {
			t.Errorf("the database contains %q", text)
		}
	}
}

// dumpTables returns every row of every table as text, with bytea in hexadecimal.
func dumpTables(t *testing.T, s *Store) string {
	t.Helper()
	var tables []string
	noError(t, s.db.NewRaw(`SELECT c.oid::regclass::text
		FROM pg_class AS c JOIN pg_namespace AS n ON n.oid = c.relnamespace
		WHERE c.relkind = 'r' AND n.nspname = 'public'`).Scan(t.Context(), &tables))
	if len(tables) < 15 {
		t.Fatalf("found only the tables %v", tables)
	}
	var dump strings.Builder
	for _, table := range tables {
		var rows []string
		noError(t, s.db.NewRaw("SELECT r::text FROM "+table+" AS r").Scan(t.Context(), &rows))
		fmt.Fprintf(&dump, "%s\n%s\n", table, strings.Join(rows, "\n"))
	}
	return dump.String()
}

func TestRowsArePaged(t *testing.T) {
	t.Parallel()
	s, l, caller := newLedger(t, nil, LedgerConfig{})
	noError(t, errors.Join(appendAll(t, allowedMany(t, caller, 7), l)...))
	for name, test := range map[string]struct {
		after, until int64
		want         []int64
	}{
		"all":            {0, 7, []int64{1, 2, 3, 4, 5, 6, 7}},
		"after a number": {5, 7, []int64{6, 7}},
		"up to a number": {0, 2, []int64{1, 2}},
		"past the end":   {6, 99, []int64{7}},
		"nothing":        {3, 3, nil},
		"the wrong way":  {5, 2, nil},
		"after the end":  {7, 9, nil},
	} {
		var got []int64
		for row, err := range (AuditLog{db: s.db}).Rows(t.Context(), 0, test.after, test.until) {
			noError(t, err)
			got = append(got, row.Seq)
		}
		expect(t, name+": records", fmt.Sprint(got), fmt.Sprint(test.want))
	}
	for _, err := range (AuditLog{db: s.db}).Rows(t.Context(), 0, 0, 7) {
		if err != nil {
			t.Error(err)
		}
		break // the iterator must stop
	}
}

func TestHashOfWrongLengthIsABreak(t *testing.T) {
	t.Parallel()
	s, l, caller := newLedger(t, nil, LedgerConfig{})
	appendOne(t, l, allowed(t, caller))
	exec(t, session(t, s.url), `UPDATE audit_records SET hash = '\x00'`)
	var errs []error
	for _, err := range (AuditLog{db: s.db}).Rows(t.Context(), 0, 0, 1) {
		errs = append(errs, err)
	}
	if len(errs) != 1 || !errors.As(errs[0], new(*audit.BreakError)) {
		t.Errorf("a hash of one byte: %v, want a break", errs)
	}
}

// A row with an altered recorded_at would be pruned too early or never.
func TestAlteredRecordedAtIsABreak(t *testing.T) {
	t.Parallel()
	needsPlainPostgres(t, "a cluster refuses the alteration")
	s, l, caller := newLedger(t, nil, LedgerConfig{})
	appendOne(t, l, allowed(t, caller))
	exec(t, session(t, s.url), "UPDATE audit_records SET recorded_at = recorded_at + interval '1 millisecond'")
	err := verifyAuditLog(t, s)
	wantErrorText(t, "verifying", err, "recorded_at differs from its timestamp")
	if !errors.As(err, new(*audit.BreakError)) {
		t.Errorf("%v, want a break", err)
	}
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
	for row, err := range (AuditLog{db: s.db}).Rows(t.Context(), 0, 0, auditPage) {
		noError(t, err)
		if rows++; row.Seq != int64(min(rows, auditPage)) {
			t.Fatalf("row %d has number %d", rows, row.Seq)
		}
	}
	expect(t, "rows", rows, auditPage+2)
}
