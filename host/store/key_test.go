package store

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/uptrace/bun"

	"assay/host/access/apikey"
	"assay/host/access/signin"
	"assay/host/check"
	"assay/host/customer/billing"
	"assay/host/customer/feedback"
	"assay/host/store/postgres/postgrestest"
	"assay/host/store/storetest"
)

func TestRevokedKeyCannotRecord(t *testing.T) {
	t.Parallel()
	url := postgrestest.Database(t)
	a, b := open(t, url, atNoon), open(t, url, nil) // the first host's cache does not grow old
	l := ledgerOn(t, a, LedgerConfig{})
	account := must(a.CreateAccount(t.Context(), plan(t, "pro", 1500)))(t)
	caller, key := newKey(t, a, account)
	spare, _ := newKey(t, a, account)
	noError(t, l.Append(t.Context(), allowed(t, caller)))
	noError(t, b.RevokeKey(t.Context(), caller.Key))
	must(a.Authenticate(t.Context(), key.Secret))(t) // still in the first host's cache: only the ledger rejects it
	wantError(t, "confirming it", a.Confirm(t.Context(), caller), check.ErrUnauthorized)
	noError(t, a.Confirm(t.Context(), spare))
	wantError(t, "append with a revoked key", l.Append(t.Context(), allowed(t, caller)), check.ErrUnauthorized)
	wantError(t, "append with the account's other key", l.Append(t.Context(), allowed(t, spare)), nil)
	a.ForgetCallers()
	wantError(t, "authenticating without the cache", errOf(a.Authenticate(t.Context(), key.Secret)),
		check.ErrUnauthorized)
	wantError(t, "revoking again", b.RevokeKey(t.Context(), caller.Key), apikey.ErrNotFound)
	wantError(t, "revoking an unknown key", b.RevokeKey(t.Context(), "key_unknown"), apikey.ErrNotFound)
	verifyLedger(t, a)
}

// A commit that fails after the statement has returned its row, as on a full disk, is an error. So is a lost reply to a
// statement that works once: sent again, it would find nothing.
func TestFailedCommit(t *testing.T) {
	t.Parallel()
	needsPlainPostgres(t, "distributed tables have no triggers")
	p := proxied(t, newStore(t, nil).url)
	s := open(t, p.URL, nil)
	caller := newCaller(t, s, plan(t, "pro", 5))
	code, link := must(s.FirstCode(t.Context(), caller.Account))(t), must(s.NewLink(t.Context(), caller.Account))(t)
	recovery := must(s.NewRecoveryLink(t.Context(), caller.Account, "jane@example.org"))(t)
	must(s.ConfirmRecovery(t.Context(), recovery))(t)
	recovery = must(s.NewRecoveryLink(t.Context(), caller.Account, "jane@example.org"))(t)
	confirm := must(s.NewAddressLink(t.Context(), caller.Account, "jane@example.org"))(t)
	job := s.Once("tidy", time.Hour, func(context.Context) error { return errors.New("it ran") }, nil)
	must(s.db.Exec("CREATE FUNCTION fill_disk() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RAISE disk_full; END'"))(t)
	for _, table := range []bun.Ident{"api_keys", "public_uses", "sign_in_codes", "sign_in_links", "owner_addresses",
		"jobs"} {
		must(s.db.Exec(`CREATE CONSTRAINT TRIGGER fill_disk AFTER INSERT OR UPDATE OR DELETE ON ? DEFERRABLE
			INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION fill_disk()`, table))(t)
	}
	for name, change := range map[string]func() error{
		"a key":        func() error { return errOf(s.CreateKey(t.Context(), caller.Account, "lost")) },
		"a rotation":   func() error { return errOf(s.RotateKey(t.Context(), "", caller.Key, time.Hour)) },
		"a revocation": func() error { return s.RevokeKey(t.Context(), caller.Key) },
		"a use": func() error {
			_, _, err := s.TakeCounted(t.Context(), "try", netip.MustParsePrefix("192.0.2.7/32"), 5, time.Hour)
			return err
		},
	} {
		wantErrorText(t, name, change(), "53100")
	}
	single := map[string]func() error{
		"a code":       func() error { return errOf(s.SignInByCode(t.Context(), code, signin.Origin{})) },
		"a link":       func() error { return errOf(s.UseLink(t.Context(), link, signin.Origin{})) },
		"an address":   func() error { return errOf(s.ConfirmAddress(t.Context(), caller.Account, confirm)) },
		"a recovery":   func() error { return errOf(s.ConfirmRecovery(t.Context(), recovery)) },
		"a removal":    func() error { return errOf(s.RemoveAddress(t.Context(), caller.Account, true)) },
		"a job's turn": func() error { return job(t.Context()) },
	}
	for name, change := range single {
		wantErrorText(t, name, change(), "53100")
	}
	must(s.db.Exec("DROP FUNCTION fill_disk CASCADE"))(t)
	for name, change := range single {
		p.Once(storetest.Muted, false, containing("RETURNING"))
		err := change()
		holds(t, errors.As(err, new(*check.DoubtError)) || errors.As(err, new(*check.UnavailableError)),
			"%s without a reply: %v", name, err)
	}
	holds(t, one[bool](t, s, "SELECT due_at < now() + interval '2 min' FROM jobs"), "the job that did not run waits")
}

// A suspended account cannot record, whichever key it has and whatever the caches say, until it is resumed.
func TestSuspendedAccount(t *testing.T) {
	t.Parallel()
	url := postgrestest.Database(t)
	a, b := open(t, url, atNoon), open(t, url, nil)
	l := ledgerOn(t, a, LedgerConfig{})
	account := must(a.CreateAccount(t.Context(), plan(t, "pro", 1500)))(t)
	caller, key := newKey(t, a, account)
	other := newCaller(t, a, plan(t, "pro", 5))
	ref := appendOne(t, l, allowed(t, caller))
	noError(t, b.SetStanding(t.Context(), account, true, "chargebacks"))
	wantError(t, "recording", l.Append(t.Context(), allowed(t, caller)), check.ErrSuspended)
	wantError(t, "recording of another account", l.Append(t.Context(), allowed(t, other)), nil)
	a.ForgetCallers()
	wantError(t, "authenticating", errOf(a.Authenticate(t.Context(), key.Secret)), check.ErrSuspended)
	_, err := a.KeepFeedback(t.Context(), caller, feedback.Report{Ref: ref, Label: feedback.Fraud}, nil)
	wantError(t, "feedback", err, check.ErrSuspended)
	issued := must(b.CreateKey(t.Context(), account, "fresh"))(t)
	fresh := caller
	fresh.Key = issued.ID
	wantError(t, "authenticating with a new key", errOf(a.Authenticate(t.Context(), issued.Secret)), check.ErrSuspended)
	wantError(t, "recording with a new key", l.Append(t.Context(), allowed(t, fresh)), check.ErrSuspended)
	expect(t, "the state of its keys", must(b.Keys(t.Context(), account))(t)[0].State, apikey.Suspended)
	noError(t, b.SetStanding(t.Context(), account, false, "settled"))
	a.ForgetCallers()
	must(a.Authenticate(t.Context(), key.Secret))(t)
	noError(t, l.Append(t.Context(), allowed(t, caller)))
	expect(t, "recorded states of the account", one[string](t, a, `SELECT string_agg(verdict, ' ' ORDER BY seq)
		FROM state_records WHERE type = 'account' AND account_id = ?`, account), "pro suspended pro")
	wantError(t, "the public account", b.SetStanding(t.Context(), publicAccount, true, "x"), billing.ErrNoAccount)
	verifyLedger(t, a)
}

// A batch that read the key as valid either commits before RevokeKey returns or fails.
func TestRevokeKeyWaitsForConcurrentBatch(t *testing.T) {
	t.Parallel()
	url := postgrestest.Database(t)
	a, b := open(t, url, nil), open(t, url, nil)
	l := ledgerOn(t, a, LedgerConfig{})
	caller := newCaller(t, a, plan(t, "pro", 1500))
	noError(t, l.Append(t.Context(), allowed(t, caller)))
	// This lock on the quota row stops the batch after it has read the key.
	conn, look := session(t, url), session(t, url)
	exec(t, conn, "BEGIN", "SELECT * FROM quota_usage WHERE chain = 0 FOR UPDATE")
	appended := async(func() error { return l.Append(context.Background(), allowed(t, caller)) })
	until(t, "the batch is stopped", func() bool { return lockWaiters(t, look) == 1 })
	revoked := async(func() error { return b.RevokeKey(context.Background(), caller.Key) })
	until(t, "revoking has returned, or waits", func() bool { return len(revoked) == 1 || lockWaiters(t, look) == 2 })
	holds(t, len(revoked) != 1, "RevokeKey returned while a check with the key could still be recorded")
	exec(t, conn, "COMMIT")
	wantError(t, "recording before the revocation", receive(t, "the batch", appended), nil)
	noError(t, receive(t, "the revocation", revoked))
	wantError(t, "recording after the revocation", l.Append(t.Context(), allowed(t, caller)), check.ErrUnauthorized)
	verifyLedger(t, a)
}

func TestLedgerValidatesCallers(t *testing.T) {
	t.Parallel()
	s := newStore(t, nil)
	l := ledgerOn(t, s, LedgerConfig{})
	mine, theirs := newCaller(t, s, plan(t, "pro", 5)), newCaller(t, s, plan(t, "pro", 5))
	for name, caller := range map[string]check.Caller{
		"an unknown account":         {Account: "acct_unknown", Key: "key_unknown", Plan: mine.Plan},
		"an unknown key":             {Account: mine.Account, Key: "key_unknown", Plan: mine.Plan},
		"another account's key":      {Account: mine.Account, Key: theirs.Key, Plan: mine.Plan},
		"no account and no key":      {},
		"an account without a key":   {Account: mine.Account, Plan: mine.Plan},
		"a public caller with a key": {Account: publicAccount, Key: mine.Key},
	} {
		wantError(t, name, l.Append(t.Context(), allowed(t, caller)), check.ErrUnauthorized)
	}
	expect(t, "records", rowsOf(t, s, "audit_records"), 0)
	for range 3 { // callers without a key have no quota
		noError(t, l.Append(t.Context(), allowed(t, s.PublicCaller())))
	}
	expect(t, "public checks recorded", rowsOf(t, s,
		"audit_records WHERE kind = 'check' AND account_id = ? AND key_id = ''", publicAccount), 3)
	expect(t, "quota rows for an account without a quota", rowsOf(t, s, "quota_usage"), 0)
	verifyLedger(t, s)
}

func TestAuthenticate(t *testing.T) {
	t.Parallel()
	now := noon
	s := newStore(t, func() time.Time { return now })
	account := must(s.CreateAccount(t.Context(), plan(t, "pro", 7)))(t)
	caller, key := newKey(t, s, account)
	holds(t, caller.Account == account && caller.Key == key.ID && caller.Plan.Name == "pro" && caller.Plan.Quota == 7,
		"caller %+v", caller)
	revoked, revokedKey := newKey(t, s, account)
	noError(t, s.RevokeKey(t.Context(), revoked.Key))
	s.ForgetCallers()
	unknown := apikey.New()
	for name, presented := range map[string]string{"revoked": revokedKey.Secret, "unknown": unknown} {
		// Not a wrapped error: responses must not distinguish the two.
		got, err := s.Authenticate(t.Context(), presented)
		if err != check.ErrUnauthorized || got.Account != "" { //nolint:errorlint // see above
			t.Errorf("%s key: %+v, %v", name, got, err)
		}
	}
	must(s.Authenticate(t.Context(), key.Secret))(t)
	// From here on every query fails.
	noError(t, s.Close())
	swapped := []byte(key.Secret)
	swapped[10], swapped[11] = swapped[11]+1, swapped[10]
	for name, presented := range map[string]string{
		"empty": "", "cut short": key.Secret[:len(key.Secret)-1], "too long": key.Secret + "0",
		"mistyped":     string(swapped),
		"other prefix": "asset_" + strings.TrimPrefix(key.Secret, "assay_"),
	} {
		wantError(t, name+" key", errOf(s.Authenticate(t.Context(), presented)), check.ErrUnauthorized)
	}
	got, err := s.Authenticate(t.Context(), key.Secret)
	holds(t, err == nil && got.Account == account, "a recent key: %+v, %v, want it cached", got, err)
	wantError(t, "a recent unknown key", errOf(s.Authenticate(t.Context(), unknown)), check.ErrUnauthorized)
	now = now.Add(cacheInvalid)
	_, err = s.Authenticate(t.Context(), unknown)
	holds(t, err != nil && !errors.Is(err, check.ErrUnauthorized), "an unknown key after a second: %v", err)
	wantError(t, "a key after a second", errOf(s.Authenticate(t.Context(), key.Secret)), nil)
	now = now.Add(cacheValid)
	_, err = s.Authenticate(t.Context(), key.Secret)
	holds(t, err != nil && !errors.Is(err, check.ErrUnauthorized), "a key after five seconds: %v", err)
	for presented, want := range map[string]string{key.Secret: account, unknown: ""} {
		got, known, err := s.Recall(presented)
		holds(t, got.Account == want && !known && err == nil, "remembered late: %+v, %v, %v", got, known, err)
	}
}

// The last use of a key is stored again once it is a minute old.
func TestLastUseOfKeys(t *testing.T) {
	t.Parallel()
	s, l, caller := newLedger(t, nil, LedgerConfig{})
	noError(t, l.Append(t.Context(), allowed(t, caller)))
	conn := session(t, s.url)
	for age, renewed := range map[string]bool{"1 second": false, "61 seconds": true} {
		exec(t, conn, fmt.Sprintf("UPDATE key_uses SET used_at = now() - interval '%s'", age))
		before := one[time.Time](t, s, "SELECT used_at FROM key_uses")
		noError(t, l.Append(t.Context(), allowed(t, caller)))
		after := one[time.Time](t, s, "SELECT used_at FROM key_uses")
		expect(t, "stored again after "+age, !after.Equal(before), renewed)
	}

	// Functions that change the audit chain for a key read its state again.
	for name, test := range map[string]struct{ set, account, want string }{
		"valid":             {"expires_at = NULL", caller.Account, ""},
		"not expired yet":   {"expires_at = now() + interval '1 hour'", caller.Account, ""},
		"expired":           {"expires_at = now()", caller.Account, invalidAuthorization},
		"revoked":           {"state = 'revoked', ended_at = now()", caller.Account, invalidAuthorization},
		"another account's": {"expires_at = NULL", "acct_other", invalidAuthorization},
	} {
		exec(t, conn, "UPDATE api_keys SET state = 'valid', ended_at = NULL, expires_at = NULL",
			"UPDATE api_keys SET "+test.set)
		_, err := s.db.ExecContext(t.Context(), "SELECT require_key(?, ?, now())", test.account, caller.Key)
		expect(t, name, sqlState(err), test.want)
	}
}

// Uses without a recorded check are stored later, and never put the last use back.
func TestUsesWithoutChecks(t *testing.T) {
	t.Parallel()
	now := noon
	s := newStore(t, func() time.Time { return now })
	caller := newCaller(t, s, plan(t, "pro", 10))
	lastUse := func() time.Time {
		k := must(s.Keys(t.Context(), caller.Account))(t)[0]
		if k.LastUsedAt == nil {
			return time.Time{}
		}
		return k.LastUsedAt.UTC()
	}
	s.NoteUse(caller)
	expect(t, "the last use before it is stored", lastUse(), time.Time{})
	noError(t, s.SaveKeyUses(t.Context()))
	expect(t, "the last use", lastUse(), noon)
	now = noon.Add(-time.Hour) // a host whose clock is late
	s.NoteUse(caller)
	noError(t, s.SaveKeyUses(t.Context()))
	expect(t, "the last use after an earlier one", lastUse(), noon)
	now = noon.Add(time.Hour)
	s.NoteUse(caller)
	wantError(t, "storing without a database", s.SaveKeyUses(endedContext(t)), context.Canceled)
	noError(t, s.SaveKeyUses(t.Context()))
	expect(t, "the last use after a failure", lastUse(), now)
	for _, want := range []int{1, 0} { // with the key, and after it
		noError(t, s.Prune(t.Context()))
		expect(t, "last uses", rowsOf(t, s, "key_uses"), want)
		must(s.db.Exec("DELETE FROM api_keys"))(t)
	}
}

func TestKeysOfAccounts(t *testing.T) {
	t.Parallel()
	s := newStore(t, func() time.Time { return noon })
	l := ledgerOn(t, s, LedgerConfig{})
	for _, account := range []string{"acct_unknown", publicAccount} {
		wantError(t, "a key for "+account, errOf(s.CreateKey(t.Context(), account, "test")), billing.ErrNoAccount)
	}
	caller := newCaller(t, s, plan(t, "starter", 150))
	second, issued := newKey(t, s, caller.Account)
	newCaller(t, s, plan(t, "free", 50))
	noError(t, l.Append(t.Context(), allowed(t, caller)))
	noError(t, s.RevokeKey(t.Context(), second.Key))
	keys, err := s.Keys(t.Context(), caller.Account)
	mustHold(t, err == nil && len(keys) == 2, "keys %+v, %v, want two", keys, err)
	newest := keys[0]
	holds(t, newest.ID == second.Key && newest.State == apikey.Revoked && newest.EndedAt != nil &&
		newest.Plan == "starter" && newest.Used == 1, "newest key %+v", newest)
	holds(t, keys[1].State == apikey.Valid && keys[1].EndedAt == nil, "oldest key %+v", keys[1])
	holds(t, newest.Hint == apikey.Hint(issued.Secret) && !strings.Contains(issued.Secret, newest.Hint), "hint %q",
		newest.Hint)
	all, err := s.Keys(t.Context(), "")
	holds(t, err == nil && len(all) == 3, "%d keys of all accounts, %v, want 3", len(all), err)
}

var byPrefix = cmp.Comparer(func(a, b netip.Prefix) bool { return a == b })

// A key is refused from the instant at which it expires, also by a host that has it in its cache.
func TestExpiredKey(t *testing.T) {
	t.Parallel()
	now := noon
	s := newStore(t, func() time.Time { return now })
	account := must(s.CreateAccount(t.Context(), plan(t, "pro", 10)))(t)
	issued := must(s.IssueKey(t.Context(), account, apikey.Wanted{Lifetime: time.Second}))(t)
	must(s.Authenticate(t.Context(), issued.Secret))(t)
	now = now.Add(time.Second - time.Microsecond)
	must(s.Authenticate(t.Context(), issued.Secret))(t)
	now = now.Add(time.Microsecond)
	for range 2 { // from the database, and from the cache
		wantError(t, "an expired key", errOf(s.Authenticate(t.Context(), issued.Secret)), check.ErrExpired)
	}
	wantError(t, "rotating it", errOf(s.RotateKey(t.Context(), account, issued.ID, time.Hour)), apikey.ErrNotFound)
	expect(t, "state", must(s.Keys(t.Context(), account))(t)[0].State, apikey.Revoked)
	now = now.Add(keyRetention + 2*time.Second)
	noError(t, s.Prune(t.Context()))
	expect(t, "keys after their retention", len(must(s.Keys(t.Context(), account))(t)), 0)

	// Limits are stored, and passed on to the replacement of a key.
	networks := []netip.Prefix{netip.MustParsePrefix("192.0.2.0/24"), netip.MustParsePrefix("2001:db8::/32")}
	for _, c := range []struct {
		name   string
		wanted apikey.Wanted
	}{
		{"none", apikey.Wanted{}},
		{"scopes", apikey.Wanted{Limits: apikey.Limits{Scopes: []apikey.Scope{apikey.ScopeCheck, apikey.ScopeEvents}}}},
		{"all", apikey.Wanted{Lifetime: 36 * time.Hour, Limits: apikey.Limits{Scopes: []apikey.Scope{apikey.ScopeBatch},
			Networks: networks, Test: true}}},
	} {
		c.wanted.Name = c.name
		issued = must(s.IssueKey(t.Context(), account, c.wanted))(t)
		// Rotated twice: a replacement passes the limits on.
		for _, overlap := range []time.Duration{time.Hour, time.Minute} {
			issued = must(s.RotateKey(t.Context(), "", issued.ID, overlap))(t)
			expect(t, c.name+": plan", issued.Plan, "pro")
		}
		caller := must(s.Authenticate(t.Context(), issued.Secret))(t)
		noDiff(t, c.name+": limits", c.wanted.Limits, caller.Limits, byPrefix)
		k := must(s.Keys(t.Context(), account))(t)[0]
		noDiff(t, c.name+": listed limits", c.wanted.Limits, k.Limits, byPrefix)
		expect(t, c.name+": name", k.Name, c.name)
		want := now.Add(c.wanted.Lifetime)
		holds(t, (c.wanted.Lifetime != 0 || k.ExpiresAt == nil) && (c.wanted.Lifetime == 0 || k.ExpiresAt != nil &&
			k.ExpiresAt.Equal(want)), "%s: expires at %v, want %v", c.name, k.ExpiresAt, want)
		if _, ok := apikey.Parse(issued.Secret); !ok || (issued.Secret[:11] == "assay_test_") != c.wanted.Limits.Test {
			t.Errorf("%s: the key is %s", c.name, issued.Secret)
		}
	}
	// An empty list in the database would read as no limit.
	for name, limits := range map[string]apikey.Limits{
		"scopes": {Scopes: []apikey.Scope{}}, "networks": {Networks: []netip.Prefix{}},
	} {
		_, err := s.IssueKey(t.Context(), account, apikey.Wanted{Limits: limits})
		expect(t, name, sqlState(err), "23514") // check_violation
	}
}

// Whatever goes wrong before it, the ledger records no check with a test key.
func TestLedgerRefusesTestKeys(t *testing.T) {
	t.Parallel()
	s, l, caller := newLedger(t, nil, LedgerConfig{})
	issued := must(s.IssueKey(t.Context(), caller.Account, apikey.Wanted{Limits: apikey.Limits{Test: true}}))(t)
	test := must(s.Authenticate(t.Context(), issued.Secret))(t)
	wantError(t, "recording a check with a test key", l.Append(t.Context(), allowed(t, test)), errTestKey)
	expect(t, "records", rowsOf(t, s, "audit_records"), 0)
	expect(t, "checks counted", rowsOf(t, s, "quota_usage"), 0)
}
