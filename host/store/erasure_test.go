package store

import (
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/uptrace/bun"

	"assay/host/check"
	"assay/host/customer/privacy"
	"assay/host/customer/webhook"
	"assay/host/entity"
	"assay/host/store/storetest"
)

// about selects an entity.
func about(e entity.Entity) privacy.Selector { return privacy.Selector{Entity: &e} }

func erase(t *testing.T, s *Store, c check.Caller, whose privacy.Selector) *privacy.ErasureResult {
	t.Helper()
	return must(s.Erase(t.Context(), c, whose))(t)
}

func export(t *testing.T, s *Store, c check.Caller, whose privacy.Selector) *privacy.Export {
	t.Helper()
	return must(s.Export(t.Context(), c, whose, privacy.Page{Limit: 1000}))(t)
}

// counts formats the counts of an erasure.
func counts(e *privacy.ErasureResult) string {
	return fmt.Sprintf("%d checks, %d events, %d sightings, %d links, %d erasures", e.Checks, e.Events, e.Sightings,
		e.Links, len(e.Erasures))
}

// appendOne appends a record and returns its reference.
func appendOne(t *testing.T, l *Ledger, r check.Record) string {
	t.Helper()
	noError(t, l.Append(t.Context(), r))
	return r.Decision.Ref
}

// After an erasure, however it named the subject, no table has its data. All other data is unchanged.
func TestEraseRemovesAllDataOfTheSubject(t *testing.T) {
	t.Parallel()
	jane, john := parse(t, entity.Email, "jane.roe@mailbox-example.net"),
		parse(t, entity.Email, "john.roe@mailbox-example.net")
	for _, by := range []string{"value", "subject", "ref"} {
		t.Run(by, func(t *testing.T) {
			t.Parallel()
			s := newStore(t, nil)
			l, o := ledgerOn(t, s, LedgerConfig{}), outboxOf(t, s)
			mine, theirs := subscriber(t, s), subscriber(t, s)
			domain := parse(t, entity.Domain, "shop.example.co.uk")
			var refs []string
			for _, verdict := range []check.Verdict{check.Allow, check.Review, check.Block} {
				r := decided(mine, jane, verdict)
				r.Linked = []entity.Entity{domain}
				r.Once = onceAs(string(verdict), jane.Value, jane.Value)
				refs = append(refs, appendOne(t, l, r))
			}
			along := decided(mine, domain, check.Block) // jane was sent together with a domain
			along.Linked = []entity.Entity{jane}
			appendOne(t, l, along)
			appendOne(t, l, decided(mine, john, check.Block))
			appendOne(t, l, decided(theirs, jane, check.Block))
			for _, d := range claim(t, o, webhook.ClaimOptions{MaxEvents: 9, MaxPerAccount: 9}) {
				finish(t, o, ended(d, 500)) // stores an attempt with a response
			}
			subject := must(s.SubjectOf(t.Context(), mine, jane))(t)
			whose := map[string]privacy.Selector{"value": about(jane), "subject": {Subject: subject},
				"ref": {Ref: refs[1]}}[by]
			export(t, s, mine, about(jane)) // stores a record with her pseudonym
			secrets := map[string]string{"raw value": jane.Value, "subject": strings.TrimPrefix(subject, "sub_")}
			for i, ref := range refs {
				secrets[fmt.Sprint("ref ", i)] = ref
				secrets[fmt.Sprint("nonce ", i)] = one[string](t, s,
					"SELECT encode(nonce, 'hex') FROM audit_records WHERE ref = ?", ref)
				secrets[fmt.Sprint("sealed node ", i)] = one[string](t, s,
					"SELECT encode(sealed_node, 'hex') FROM audit_records WHERE ref = ?", ref)
			}
			before := dumpTables(t, s)
			for what, text := range secrets {
				mustHold(t, what == "raw value" || strings.Contains(before, text),
					"before the erasure, the dump does not contain the %s", what)
			}
			others := func() map[string]string {
				noError(t, s.CatchUp(t.Context()))
				rows := map[string]string{}
				for what, query := range map[string]string{
					"audit records": `SELECT coalesce(string_agg(r::text, E'\n' ORDER BY seq), '')
						FROM audit_records AS r WHERE kind IN ('check', 'lineup') AND ref NOT IN (?refs)`,
					"events": `SELECT coalesce(string_agg(e::text, E'\n' ORDER BY ref), '') FROM webhook_events AS e
						WHERE ref NOT IN (?refs)`,
					"attempts": `SELECT coalesce(string_agg(e::text, E'\n' ORDER BY ref, number), '')
						FROM webhook_attempts AS e WHERE ref NOT IN (?refs)`,
					"sightings": `SELECT string_agg(g::text, E'\n' ORDER BY node) FROM graph_sightings AS g
						WHERE account = graph_account(?other)`,
					"links": `SELECT string_agg(g::text, E'\n' ORDER BY node, other) FROM graph_edges AS g
						WHERE account = graph_account(?other)`,
					"quota": "SELECT string_agg(q::text, E'\n' ORDER BY account_id) FROM quota_usage AS q",
				} {
					rows[what] = one[string](t, s, query, named{"refs": bun.List(refs), "other": theirs.Account})
				}
				return rows
			}
			kept := others()
			erased := erase(t, s, mine, whose)
			expect(t, "erased", counts(erased), "3 checks, 2 events, 1 sightings, 3 links, 1 erasures")
			expect(t, "subject", *erased.Subject, subject)
			after := dumpTables(t, s)
			for what, text := range secrets {
				holds(t, !strings.Contains(after, text) && !strings.Contains(after, hex.EncodeToString([]byte(text))),
					"the database still contains the %s", what)
			}
			noDiff(t, "other data has changed", kept, others())
			for _, n := range []struct{ kind, value, want string }{
				{"email", jane.Value, "0 rows"},
				{"maildomain", "mailbox-example.net", "maildomain: 1 checks, 0 blocked, 0 reviewed, 12:00 to 12:00"},
				{"email", john.Value, "email: 1 checks, 1 blocked, 0 reviewed, 12:00 to 12:00"},
				{"domain", domain.Value, "domain: 4 checks, 1 blocked, 0 reviewed, 12:00 to 12:00"},
			} {
				expect(t, "the graph about "+n.value, sightingOf(t, s, mine.Account, n.kind, n.value), n.want)
			}
			expect(t, "remaining links of the subject", rowsOf(t, s, `graph_edges WHERE account = graph_account(?)
				AND ? IN (encode(node, 'hex'), encode(other, 'hex'))`, mine.Account, node("email", jane.Value)), 0)
			verifyLedger(t, s)

			again := erase(t, s, mine, whose)
			expect(t, "erased again", counts(again), "0 checks, 0 events, 0 sightings, 0 links, 1 erasures")
			noDiff(t, "the erasures differ", erased.Erasures, again.Erasures)
			exported := export(t, s, mine, whose)
			holds(t, len(exported.Checks) == 0 && exported.Graph == nil && len(exported.Erasures) == 1 &&
				exported.Erasures[0].Checks == 3, "exported %+v, want only an erasure of 3 checks", exported)
			expect(t, "export records with the pseudonym", rowsOf(t, s, "audit_records WHERE kind = 'export'"), 0)
			other := export(t, s, theirs, about(jane))
			holds(t, other.Total == 1 && other.Graph.Checks == 1, "the other account exports %+v, want 1 check", other)
			verifyLedger(t, s)
		})
	}
}

func TestUnknownSubject(t *testing.T) {
	t.Parallel()
	s, l, mine := newLedger(t, nil, LedgerConfig{})
	theirs := newCaller(t, s, plan(t, "pro", 10))
	r := allowed(t, theirs)
	ref := appendOne(t, l, r)
	subject := must(s.SubjectOf(t.Context(), theirs, r.Entity))(t)
	for name, whose := range map[string]privacy.Selector{
		"another account's check":   {Ref: ref},
		"another account's subject": {Subject: subject},
		"no check":                  {Ref: check.NewRef()},
		"no subject":                {Subject: privacy.Reference(make([]byte, 32))},
		"a value":                   about(parse(t, entity.Domain, "never.example")),
	} {
		_, err := s.Export(t.Context(), mine, whose, privacy.Page{Limit: 1})
		wantError(t, "exporting "+name, err, privacy.ErrUnknownSubject)
		erased, err := s.Erase(t.Context(), mine, whose)
		holds(t, whose.Entity != nil || errors.Is(err, privacy.ErrUnknownSubject), "erasing %s: %v", name, err)
		holds(t, whose.Entity == nil || err == nil && erased.Checks+erased.Events+erased.Sightings+erased.Links+
			len(erased.Erasures) == 0, "erasing %s: %v, %+v", name, err, erased)
	}
	expect(t, "audit records", rowsOf(t, s, "audit_records"), 1)
	got := export(t, s, theirs, privacy.Selector{Ref: ref})
	holds(t, got.Total == 1 && *got.Subject == subject, "its owner exports %+v, want 1 check", got)
	erase(t, s, theirs, privacy.Selector{Ref: ref})
	got = export(t, s, theirs, privacy.Selector{Ref: ref})
	holds(t, got.Total == 0 && got.Subject == nil, "after the erasure its owner exports %+v", got)
	for _, whose := range []privacy.Selector{{Ref: ref}, {Subject: subject}} {
		wantError(t, "erasing another account's erased subject", errOf(s.Erase(t.Context(), mine, whose)),
			privacy.ErrUnknownSubject)
	}

	// A revoked key cannot export or erase, even if a host still has it in its cache.
	ref = appendOne(t, l, allowed(t, mine))
	noError(t, s.RevokeKey(t.Context(), mine.Key))
	for what, err := range map[string]error{
		"exporting": errOf(s.Export(t.Context(), mine, privacy.Selector{Ref: ref}, privacy.Page{Limit: 1})),
		"erasing":   errOf(s.Erase(t.Context(), mine, privacy.Selector{Ref: ref})),
		"naming":    errOf(s.SubjectOf(t.Context(), mine, r.Entity)),
	} {
		wantError(t, what+" with a revoked key", err, check.ErrUnauthorized)
	}
	expect(t, "records of the check", recorded(t, s, ref), 1)
}

// An erased subject can be checked and erased again. An export that an erasure overtakes records no pseudonym.
func TestEraseAfterCheckingAgain(t *testing.T) {
	t.Parallel()
	s, l, caller := newVerified(t, nil, LedgerConfig{})
	var pseudonym []byte
	for n := 1; n <= 3; n++ {
		ref := appendOne(t, l, allowed(t, caller))
		pseudonym = one[[]byte](t, s, "SELECT pseudonym FROM audit_records WHERE ref = ?", ref)
		erased := erase(t, s, caller, privacy.Selector{Ref: ref})
		expect(t, "checks that were erased", erased.Checks, 1)
		expect(t, "erasures", len(erased.Erasures), n)
	}
	noError(t, s.recordExport(t.Context(), caller, pseudonym))
	expect(t, "records with the pseudonym", rowsOf(t, s, "audit_records WHERE pseudonym IS NOT NULL"), 0)

	// A subject that was only sent along with others is in the graph alone, and is exported and erased by its value.
	phone := parse(t, entity.Phone, "+4915123456789")
	r := allowed(t, caller)
	r.Linked = []entity.Entity{phone}
	appendOne(t, l, r)
	exported := export(t, s, caller, about(phone))
	holds(t, exported.Total == 0 && exported.Graph != nil && exported.Graph.Checks == 1 && exported.Graph.Links == 2,
		"exported %+v, want a graph with 1 check and 2 links", exported)
	expect(t, "erased", counts(erase(t, s, caller, about(phone))),
		"0 checks, 0 events, 1 sightings, 2 links, 1 erasures")
	expect(t, "sighting of its number range", sightingOf(t, s, caller.Account, "range", "4915123"), "0 rows")
}

// If a check's node was altered or is missing, the subject must be given by value: no other's node is used.
func TestEraseWithoutTheNode(t *testing.T) {
	t.Parallel()
	s, l, caller := newLedger(t, nil, LedgerConfig{})
	e, other := parse(t, entity.Domain, "one.example"), parse(t, entity.Domain, "two.example")
	ref := appendOne(t, l, decided(caller, e, check.Allow))
	second := appendOne(t, l, decided(caller, e, check.Allow))
	appendOne(t, l, decided(caller, other, check.Allow))
	db := session(t, s.url)
	node := value[[]byte](t, db, "SELECT sealed_node FROM audit_records WHERE seq = 3")
	must(db.Exec(t.Context(), "UPDATE audit_records SET sealed_node = $1 WHERE seq = 2", node))(t)
	got := export(t, s, caller, privacy.Selector{Ref: second}) // finds the graph by the first check's node
	holds(t, got.Graph != nil && got.Graph.Checks == 2, "exported %+v, want 2 checks in the graph", got)
	exec(t, db, "UPDATE audit_records SET sealed_node = NULL WHERE seq = 1")
	got = export(t, s, caller, privacy.Selector{Ref: ref})
	holds(t, got.Graph == nil && got.Total == 2, "exported %+v, want 2 checks and no graph", got)
	_, err := s.Erase(t.Context(), caller, privacy.Selector{Ref: ref})
	holds(t, errors.As(err, new(*entity.InvalidError)), "erasing by reference: %v", err)
	expect(t, "erased", counts(erase(t, s, caller, about(e))), "2 checks, 0 events, 1 sightings, 0 links, 1 erasures")
	holds(t, sightingOf(t, s, caller.Account, "domain", other.Value) != "0 rows", "the other subject is gone")
}

// Verification distinguishes erased records from records that were blanked in the database.
func TestBlankedRowsAreDetected(t *testing.T) {
	t.Parallel()
	const blank = `UPDATE audit_records
		SET kind = 'erased', ref = NULL, account_id = '', key_id = '', type = '', pseudonym = NULL,
			nonce = NULL, score = 0, verdict = '', revision = 0, digest = NULL WHERE chain = 0 AND seq = `
	s, l, caller := newLedger(t, nil, LedgerConfig{})
	ref := appendOne(t, l, allowed(t, caller))
	appendOne(t, l, decided(caller, parse(t, entity.Domain, "other.example"), check.Allow))
	erase(t, s, caller, privacy.Selector{Ref: ref})
	conn := session(t, s.url)
	exec(t, conn, "CREATE TABLE kept_records AS TABLE audit_records", "CREATE TABLE kept_lists AS TABLE erased_records")
	for name, test := range map[string]struct{ tamper, reason string }{
		"a row is blanked": {blank + "2", "no later erasure names it"},
		"a row loses its nonce": {"UPDATE audit_records SET nonce = NULL WHERE seq = 2",
			"its nonce was deleted, but not its content"},
		"an erased row gets content": {`UPDATE audit_records SET kind = 'check', account_id = 'acct_1',
			verdict = 'block' WHERE seq = 1`, "its nonce was deleted, but not its content"},
		"a row is blanked and listed as erased": {blank + `2;
			INSERT INTO erased_records SELECT chain, seq, leaf, 3, '\x00' FROM audit_records
				WHERE seq = 2 AND chain = 0`,
			"differs from the signed one"},
		"a list is deleted":     {"DELETE FROM erased_records", "differs from the signed one"},
		"a list is altered":     {"UPDATE erased_records SET seq = 2", "differs from the signed one"},
		"a leaf is truncated":   {`UPDATE erased_records SET leaf = '\x00'`, "is not 32 bytes long"},
		"an erasure is blanked": {blank + "3", "no later erasure names it"},
		"an erased row gets a nonce": {`UPDATE audit_records SET nonce = decode(repeat('00', 16), 'hex')
			WHERE seq = 1`, "does not match its leaf"},
	} {
		verifyLedger(t, s)
		exec(t, conn, test.tamper)
		wantErrorText(t, name, verifyAuditLog(t, s), test.reason)
		exec(t, conn, `DELETE FROM audit_records; INSERT INTO audit_records TABLE kept_records;
			DELETE FROM erased_records; INSERT INTO erased_records TABLE kept_lists`)
	}
}

// A subject with many checks is erased in several transactions, but with one result.
func TestEraseInBatches(t *testing.T) {
	t.Parallel()
	s := newStore(t, nil)
	l := ledgerOn(t, s, LedgerConfig{})
	for name, checks := range map[string]int{"a check in the second transaction": eraseBatch + 1,
		"only an export in the second transaction": eraseBatch} {
		t.Run(name, func(t *testing.T) {
			caller := newCaller(t, s, plan(t, "pro", 1_000_000))
			records := allowedMany(t, caller, checks)
			noError(t, l.Append(t.Context(), records...))
			first := privacy.Selector{Ref: records[0].Decision.Ref}
			export(t, s, caller, first)
			operator := check.Caller{Account: caller.Account, Key: operatorKey}
			expect(t, "erased", counts(erase(t, s, operator, first)),
				fmt.Sprintf("%d checks, 0 events, 1 sightings, 0 links, 2 erasures", checks))
			expect(t, "remaining records", rowsOf(t, s, "audit_records WHERE pseudonym IS NOT NULL"), 0)
			verifyLedger(t, s)
		})
	}
}

// If a check is erased while its event is being delivered, the attempt is not stored and the event is not sent again.
func TestEraseDuringDelivery(t *testing.T) {
	t.Parallel()
	s := newStore(t, nil)
	o, caller := outboxOf(t, s), subscriber(t, s)
	for name, status := range map[string]int{"failed attempt": 500, "successful attempt": 200} {
		t.Run(name, func(t *testing.T) {
			ref := blocked(t, ledgerOn(t, s, LedgerConfig{}), caller, 1)[0]
			d := claimOne(t, o)
			expect(t, "erased events", erase(t, s, caller, privacy.Selector{Ref: ref}).Events, 1)
			_, again := finish(t, o, ended(d, status))
			holds(t, !again, "the event is scheduled again")
			claimNone(t, o, "after the erasure")
			expect(t, "remaining events and attempts", one[int](t, s, `SELECT (SELECT count(*) FROM webhook_events) +
				(SELECT count(*) FROM webhook_attempts)`), 0)
		})
	}
}

// An erasure of one check takes at most six round trips.
func TestRoundTripsOfAnErasure(t *testing.T) {
	t.Parallel()
	s, l, caller := newVerified(t, nil, LedgerConfig{})
	p := proxied(t, s.url)
	host := open(t, p.URL, nil)
	e := parse(t, entity.Domain, "example.org")
	for _, most := range []int32{6, 8} {
		selector := privacy.Selector{Ref: appendOne(t, l, at(decided(caller, e, check.Allow), time.Now()))}
		if most == 6 { // a reference names neither the subject nor its node
			selector = about(e)
		}
		noError(t, s.CatchUp(t.Context()))
		var trips atomic.Int32
		p.Set(func(string) storetest.Fate { trips.Add(1); return storetest.Passes }, false)
		erased := must(host.Erase(t.Context(), caller, selector))(t)
		holds(t, erased.Checks > 0 && erased.Sightings > 0, "erased %+v", erased)
		holds(t, trips.Load() <= most, "an erasure by %+v took %d round trips, want at most %d", selector, trips.Load(),
			most)
		p.Set(nil, false)
	}
}
