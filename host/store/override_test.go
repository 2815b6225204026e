package store

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/uptrace/bun"

	"assay/host/audit"
	"assay/host/check"
	"assay/host/customer/override"
	"assay/host/customer/privacy"
	"assay/host/entity"
)

func wanted(t testing.TB, action check.Verdict, kind override.Kind, value string) override.Wanted {
	t.Helper()
	target := must(override.ParseTarget(kind, value, ""))(t)
	return override.Wanted{Action: action, Target: target, Reason: "seen in a fraud ring",
		ExpiresAt: noon.Add(time.Hour)}
}

// found returns the id of the override that decides a check, or "", as an index that reads the store finds it.
func found(t testing.TB, s *Store, account string, e entity.Entity) string {
	t.Helper()
	x := override.NewIndex(s, s.OverrideKeys(), s.Now, s.log)
	noError(t, x.Load(t.Context()))
	o := must(x.Find(account, e))(t)
	if o == nil {
		return ""
	}
	return o.ID
}

func atNoon() time.Time { return noon }

func TestOverrideIsAddedReplacedAndRemoved(t *testing.T) {
	t.Parallel()
	s := newStore(t, atNoon)
	c, other := newCaller(t, s, plan(t, "pro", 10)), newCaller(t, s, plan(t, "pro", 10))
	e := parse(t, entity.Email, "jane@example.org")
	first := must(s.AddOverride(t.Context(), c, wanted(t, check.Block, override.Email, "Jane+x@example.org")))(t)
	want := override.Listed{ID: first.ID, Account: c.Account, Action: check.Block, Kind: override.Email,
		Target: "j...@example.org", Reason: "seen in a fraud ring", Author: c.Key, CreatedAt: privacy.Time{Time: noon},
		ExpiresAt: privacy.Time{Time: noon.Add(time.Hour)}}
	noDiff(t, "added", want, *first)
	expect(t, "found", found(t, s, c.Account, e), first.ID)
	expect(t, "found by another account", found(t, s, other.Account, e), "")

	second := must(s.AddOverride(t.Context(), c, wanted(t, check.Allow, override.Email, "jane@example.org")))(t)
	expect(t, "replaced", second.Replaced, first.ID)
	expect(t, "found after it was replaced", found(t, s, c.Account, e), second.ID)
	expect(t, "listed", len(must(s.Overrides(t.Context(), c.Account))(t)), 1)

	wantError(t, "removed by another account", s.RemoveOverride(t.Context(), other, second.ID), override.ErrUnknown)
	noError(t, s.RemoveOverride(t.Context(), c, second.ID))
	wantError(t, "removed twice", s.RemoveOverride(t.Context(), c, second.ID), override.ErrUnknown)
	expect(t, "found after it was removed", found(t, s, c.Account, e), "")

	var records []string
	for row, err := range s.Rows(t.Context(), 0, 0, 100) {
		noError(t, err)
		r := row.Record
		if r.Kind == audit.Override {
			records = append(records, fmt.Sprint(r.Verdict, " ", r.Ref, " ", r.Account == c.Account && r.Key == c.Key &&
				r.Revision == noon.Add(time.Hour).UnixMilli() && r.Pseudonym == nil))
		}
	}
	noDiff(t, "records", []string{"block " + first.ID + " true", "removed " + first.ID + "-removed true",
		"allow " + second.ID + " true", "removed " + second.ID + "-removed true"}, records)
	verifyLedger(t, s)
}

func TestOverrideIsRefused(t *testing.T) {
	t.Parallel()
	s := newStore(t, atNoon)
	c := newCaller(t, s, plan(t, "pro", 10))
	var invalid *entity.InvalidError
	w := wanted(t, check.Block, override.Domain, "example.com")
	w.ExpiresAt = noon.Add(override.MaxAge + time.Second)
	_, err := s.AddOverride(t.Context(), c, w)
	holds(t, errors.As(err, &invalid) && invalid.Field == "expires_at", "an expiry after more than a year: %v", err)
	w.ExpiresAt = noon.Add(time.Minute)
	noError(t, s.RevokeKey(t.Context(), c.Key))
	wantError(t, "with a revoked key", errOf(s.AddOverride(t.Context(), c, w)), check.ErrUnauthorized)
	expect(t, "records", rowsOf(t, s, "audit_records"), 0)
}

// The record of a check that an override decided names it by the digest of its addition.
func TestRecordOfAnOverriddenCheck(t *testing.T) {
	t.Parallel()
	s, l, c := newVerified(t, atNoon, LedgerConfig{})
	_ = must(s.AddOverride(t.Context(), c, wanted(t, check.Block, override.Domain, "example.com")))(t)
	x := override.NewIndex(s, s.OverrideKeys(), s.Now, s.log)
	noError(t, x.Load(t.Context()))
	r := at(decided(c, parse(t, entity.Domain, "example.com"), check.Block), noon)
	r.Decision.Override = must(x.Find(c.Account, r.Entity))(t)
	plain := at(decided(c, parse(t, entity.Domain, "example.net"), check.Block), noon)
	noError(t, l.Append(t.Context(), r, plain))
	expect(t, "records with the digest of the addition", one[string](t, s, `SELECT string_agg(r.ref, ' ')
		FROM audit_records AS r JOIN audit_records AS a USING (chain, digest)
		WHERE a.kind = 'override' AND r.kind = 'check'`), r.Decision.Ref)
	expect(t, "checks without a digest", one[string](t, s, `SELECT string_agg(ref, ' ') FROM audit_records
		WHERE kind = 'check' AND digest IS NULL`), plain.Decision.Ref)
	verifyLedger(t, s)

	// An override for all accounts is not theirs to list or remove.
	w := wanted(t, check.Block, override.Registrable, "example.co.uk")
	w.Author = "ops"
	all := must(s.AddOverrideForAll(t.Context(), w))(t)
	e := parse(t, entity.Domain, "www.example.co.uk")
	expect(t, "found", found(t, s, c.Account, e), all.ID)
	expect(t, "listed for the account", len(must(s.Overrides(t.Context(), c.Account))(t)), 1)
	wantError(t, "removed by an account", s.RemoveOverride(t.Context(), c, all.ID), override.ErrUnknown)
	mine := must(s.AddOverride(t.Context(), c, wanted(t, check.Block, override.Domain, "example.info")))(t)
	expect(t, "all", len(must(s.AllOverrides(t.Context()))(t)), 3)
	noError(t, s.RemoveAnyOverride(t.Context(), all.ID))
	noError(t, s.RemoveAnyOverride(t.Context(), mine.ID))
	wantError(t, "removed twice", s.RemoveAnyOverride(t.Context(), mine.ID), override.ErrUnknown)
	expect(t, "found after it was removed", found(t, s, c.Account, e), "")
}

func TestOverridesOfAnAccountAreLimited(t *testing.T) {
	t.Parallel()
	s := newStore(t, atNoon)
	c := newCaller(t, s, plan(t, "pro", 10))
	kept := must(s.AddOverride(t.Context(), c, wanted(t, check.Block, override.Domain, "example.com")))(t)
	_, err := s.db.ExecContext(t.Context(), `INSERT INTO overrides SELECT id || n, account_id, action, kind,
		sha256(match || int4send(n)), subject, masked, sealed_reason, author, created_at, expires_at, mac
		FROM overrides, generate_series(0, ?) AS n`, overridesPage)
	noError(t, err)
	expect(t, "read", len(must(s.OverridesSince(t.Context(), 0))(t).Accounts[c.Account]), overridesPage+2)
	_, err = s.AddOverride(t.Context(), c, wanted(t, check.Block, override.Domain, "example.net"))
	holds(t, errors.As(err, new(override.TooManyError)), "one more than the maximum: %v", err)
	again := must(s.AddOverride(t.Context(), c, wanted(t, check.Allow, override.Domain, "example.com")))(t)
	expect(t, "replaced at the maximum", again.Replaced, kept.ID)
	exec(t, session(t, s.url), fmt.Sprintf(`UPDATE overrides SET expires_at = created_at WHERE id = '%s';
		INSERT INTO overrides SELECT id || 'x', account_id, action, kind, sha256(match), subject, masked, sealed_reason,
		author, created_at, created_at + interval '1 day', mac FROM overrides WHERE id = '%[1]s'`, again.ID))
	_, err = s.AddOverride(t.Context(), c, wanted(t, check.Allow, override.Domain, "example.com"))
	holds(t, errors.As(err, new(override.TooManyError)), "in place of an expired one, at the maximum: %v", err)
	_ = must(s.AddOverrideForAll(t.Context(), wanted(t, check.Block, override.Domain, "example.net")))(t)
}

func TestErasureRemovesOverrides(t *testing.T) {
	t.Parallel()
	s, l, other := newVerified(t, atNoon, LedgerConfig{})
	_ = must(s.AddOverride(t.Context(), other, wanted(t, check.Block, override.Domain, "example.com")))(t)
	for _, by := range []string{"value", "subject", "ref"} {
		t.Run(by, func(t *testing.T) {
			c := newCaller(t, s, plan(t, "pro", 10))
			e := parse(t, entity.Domain, "example.com")
			ref := check.NewRef()
			if by == "ref" { // otherwise it was never checked
				ref = appendOne(t, l, at(decided(c, e, check.Allow), noon))
			}
			_ = must(s.AddOverride(t.Context(), c, wanted(t, check.Block, override.Domain, "example.com")))(t)
			_ = must(s.AddOverride(t.Context(), c, wanted(t, check.Block, override.Registrable, "example.com")))(t)
			_ = must(s.AddOverride(t.Context(), c, wanted(t, check.Block, override.Domain, "www.example.com")))(t)

			selector := map[string]privacy.Selector{"value": about(e), "ref": {Ref: ref},
				"subject": {Subject: must(s.SubjectOf(t.Context(), c, e))(t)}}[by]
			exported := export(t, s, c, selector)
			expect(t, "exported", len(exported.Overrides), 2)
			expect(t, "reason", exported.Overrides[0].Reason, "seen in a fraud ring")
			erased := must(s.Erase(t.Context(), c, selector))(t)
			expect(t, "erased", erased.Overrides, 2)
			holds(t, erased.Subject != nil && erased.Erasures != nil, "erased %+v", erased)
			expect(t, "left to the account", len(must(s.Overrides(t.Context(), c.Account))(t)), 1)
			expect(t, "left to others", len(must(s.Overrides(t.Context(), other.Account))(t)), 1)
		})
	}
}

// The value and the reason of an override are in no table.
func TestOverrideHoldsNoRawValue(t *testing.T) {
	t.Parallel()
	s := newStore(t, atNoon)
	c := newCaller(t, s, plan(t, "pro", 10))
	for kind, value := range map[override.Kind]string{
		override.Domain: "paypa1-login.example", override.Email: "jane.roe@example.org",
		override.Phone: "+493012345678", override.IBAN: "DE89370400440532013000",
		override.Registrable: "paypa1-shop.example", override.Range: "+493012345", override.Bank: "DE37040044",
	} {
		_ = must(s.AddOverride(t.Context(), c, wanted(t, check.Block, kind, value)))(t)
		_ = must(s.AddOverrideForAll(t.Context(), wanted(t, check.Block, kind, value)))(t)
		for _, table := range []string{"overrides", "audit_records"} {
			var texts []string
			noError(t, s.db.NewRaw("SELECT x::text FROM ? AS x", bun.Ident(table)).Scan(t.Context(), &texts))
			for _, text := range texts {
				holds(t, !strings.Contains(text, value) && !strings.Contains(text, fmt.Sprintf("%x", value)) &&
					!strings.Contains(text, "fraud ring"), "%s contains %s: %s", table, value, text)
			}
		}
	}
	expect(t, "matches of the account and for all that are equal",
		rowsOf(t, s, "overrides AS a JOIN overrides AS b USING (match) WHERE a.id <> b.id"), 0)
}

func TestPruneOverrides(t *testing.T) {
	t.Parallel()
	now := noon
	s := newStore(t, func() time.Time { return now })
	c := newCaller(t, s, plan(t, "pro", 10))
	_ = must(s.AddOverride(t.Context(), c, wanted(t, check.Block, override.Domain, "example.com")))(t)
	for _, test := range []struct {
		after   time.Duration
		left    int
		ignored string
	}{{0, 1, ""}, {time.Hour, 1, "expired"}, {time.Hour + overrideRetention + time.Second, 0, ""}} {
		now = noon.Add(test.after)
		noError(t, s.Prune(t.Context()))
		left := must(s.Overrides(t.Context(), c.Account))(t)
		holds(t, len(left) == test.left && (len(left) == 0 || left[0].Ignored == test.ignored), "after %s: %+v",
			test.after, left)
	}
}
