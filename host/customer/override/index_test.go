package override

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"assay/host/check"
	"assay/host/entity"
	"assay/registry/expect"
)

var (
	testKeys = Keys{Targets: bytes.Repeat([]byte{1}, 32), Rows: bytes.Repeat([]byte{2}, 32)}
	start    = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
)

// memory is a source.
type memory struct {
	entries map[string][]Entry
	last    int64
	err     error
	slow    func() // called if reading all takes longer than reloadTimeout
	asked   []int64
}

func (m *memory) OverridesSince(ctx context.Context, since int64) (Changes, error) {
	m.asked = append(m.asked, since)
	if m.slow != nil && since == 0 {
		if _, bounded := ctx.Deadline(); bounded {
			return Changes{}, context.DeadlineExceeded
		}
		m.slow()
	}
	changes := Changes{Last: m.last, Accounts: map[string][]Entry{}}
	if since != m.last {
		changes.Accounts = m.entries
	}
	return changes, m.err
}

// add adds an override that is valid for an hour.
func (m *memory) add(t testing.TB, account, id string, action check.Verdict, kind Kind, value string) *Entry {
	t.Helper()
	to := target(t, kind, value)
	e := Entry{ID: id, Account: account, Action: action, Kind: kind, Match: testKeys.Match(account, to),
		Masked: to.Masked(), Author: "test", CreatedAt: start, ExpiresAt: start.Add(time.Hour)}
	e.MAC = testKeys.MAC(e)
	if m.entries == nil {
		m.entries = map[string][]Entry{}
	}
	m.entries[account] = append(m.entries[account], e)
	m.last++
	return &m.entries[account][len(m.entries[account])-1]
}

// clocked is an index with clocks that a test moves.
type clocked struct {
	*Index
	at  time.Time
	log strings.Builder
}

func newClocked(m *memory) *clocked {
	c := &clocked{at: start}
	c.Index = NewIndex(m, testKeys, func() time.Time { return c.at }, slog.New(slog.NewTextHandler(&c.log, nil)))
	c.host = c.now
	return c
}

func (c *clocked) load(t testing.TB) *clocked {
	t.Helper()
	expect.NoError(t, c.Load(t.Context()))
	return c
}

// find returns the id of the override that decides, or "".
func (c *clocked) find(t testing.TB, account string, typ entity.Type, value string) string {
	t.Helper()
	found := expect.Value(c.Find(account, expect.Value(entity.Parse(typ, value, ""))(t)))(t)
	if found == nil {
		return ""
	}
	return found.ID
}

func TestFind(t *testing.T) {
	t.Parallel()
	m := &memory{}
	for _, o := range []struct {
		id    string
		kind  Kind
		value string
	}{
		{"domain", Domain, "login.example.com"},
		{"international", Domain, "bücher.example"},
		{"registrable", Registrable, "example.co.uk"},
		{"email", Email, "jane+a@example.org"},
		{"phone", Phone, "+49 30 1234567"},
		{"range", Range, "+4989"},
		{"narrow range", Range, "+4989 55"},
		{"iban", IBAN, "DE89 3704 0044 0532 0130 00"},
		{"bank", Bank, "FR20041"},
	} {
		m.add(t, "acct_1", o.id, check.Block, o.kind, o.value)
	}
	x := newClocked(m).load(t)
	for _, test := range []struct {
		name        string
		typ         entity.Type
		value, want string
	}{
		{"in capitals with a final dot", entity.Domain, "LOGIN.example.com.", "domain"},
		{"in a URL", entity.Domain, "https://login.example.com:8443/path", "domain"},
		{"a value covers no subdomain", entity.Domain, "a.login.example.com", ""},
		{"a value covers no parent", entity.Domain, "example.com", ""},
		{"in A-labels", entity.Domain, "xn--bcher-kva.example", "international"},
		{"a look-alike", entity.Domain, "bucher.example", ""},
		{"the registrable domain", entity.Domain, "example.co.uk", "registrable"},
		{"below it", entity.Domain, "a.b.example.co.uk", "registrable"},
		{"an address at it", entity.Email, "jane@example.co.uk", "registrable"},
		{"the same public suffix", entity.Domain, "sample.co.uk", ""},
		{"with it as a subdomain", entity.Domain, "example.co.uk.example.net", ""},
		{"another tag", entity.Email, "Jane+b@EXAMPLE.org", "email"},
		{"without a tag", entity.Email, "jane@example.org", "email"},
		{"another mailbox", entity.Email, "janet@example.org", ""},
		{"the domain of an address", entity.Domain, "example.org", ""},
		{"national format", entity.Phone, "0049 (30) 123-4567", "phone"},
		{"in a range", entity.Phone, "+49 89 123456", "range"},
		{"in a range within it", entity.Phone, "+49 89 551234", "narrow range"},
		{"in no range", entity.Phone, "+49 40 123456", ""},
		{"another account of the bank", entity.IBAN, "DE75 3704 0044 0532 0130 01", ""},
		{"the bank", entity.IBAN, "FR14 2004 1010 0505 0001 3M02 606", "bank"},
	} {
		expect.Equal(t, fmt.Sprintf("%s (%s)", test.name, test.value), x.find(t, "acct_1", test.typ, test.value),
			test.want)
		expect.Equal(t, test.name+": found by another account", x.find(t, "acct_2", test.typ, test.value), "")
	}
}

func TestPrecedence(t *testing.T) {
	t.Parallel()
	type given struct {
		account, id string
		action      check.Verdict
		kind        Kind
		value       string
	}
	type testCase struct {
		given []given
		want  string
	}
	expect.Each(t, map[string]testCase{
		"the account's block precedes an allow for all": {[]given{{"", "all", check.Allow, Domain, "a.example.com"},
			{"acct_1", "own", check.Block, Domain, "a.example.com"}}, "own"},
		"even a wider one": {[]given{{"", "all", check.Allow, Domain, "a.example.com"},
			{"acct_1", "own", check.Block, Registrable, "example.com"}}, "own"},
		"a block for all precedes the account's allow": {[]given{{"", "all", check.Block, Registrable, "example.com"},
			{"acct_1", "own", check.Allow, Domain, "a.example.com"}}, "all"},
		"the most specific for all counts": {[]given{{"", "all", check.Block, Registrable, "example.com"},
			{"", "except", check.Allow, Domain, "a.example.com"}}, "except"},
		"so the account's may precede": {[]given{{"", "all", check.Block, Registrable, "example.com"},
			{"", "except", check.Allow, Domain, "a.example.com"},
			{"acct_1", "own", check.Block, Registrable, "example.com"}}, "own"},
		"the most specific of the account counts": {[]given{
			{"acct_1", "own", check.Block, Registrable, "example.com"},
			{"acct_1", "except", check.Allow, Domain, "a.example.com"}}, "except"},
		"those of others do not": {[]given{{"acct_2", "other", check.Block, Domain, "a.example.com"}}, ""},
		"for all alone":          {[]given{{"", "all", check.Allow, Registrable, "example.com"}}, "all"},
	}, func(t *testing.T, test testCase) {
		m := &memory{}
		for _, g := range test.given {
			m.add(t, g.account, g.id, g.action, g.kind, g.value)
		}
		expect.Equal(t, "what decides", newClocked(m).load(t).find(t, "acct_1", entity.Domain, "a.example.com"),
			test.want)
	})
}

// Each column is covered by the MAC, and so is the account that an entry counts for.
func TestAlteredEntriesAreIgnoredByName(t *testing.T) {
	t.Parallel()
	expect.Each(t, map[string]func(*Entry){
		"id":            func(e *Entry) { e.ID = "ovr_2" },
		"account":       func(e *Entry) { e.Account = "acct_2" },
		"action":        func(e *Entry) { e.Action = check.Allow },
		"kind":          func(e *Entry) { e.Kind = Registrable },
		"match":         func(e *Entry) { e.Match = testKeys.Match("acct_1", target(t, Domain, "example.net")) },
		"subject":       func(e *Entry) { e.Subject = []byte{1} },
		"masked":        func(e *Entry) { e.Masked = "x" },
		"sealed reason": func(e *Entry) { e.SealedReason = []byte{1} },
		"author":        func(e *Entry) { e.Author = "somebody" },
		"created at":    func(e *Entry) { e.CreatedAt = e.CreatedAt.Add(time.Millisecond) },
		"expires at":    func(e *Entry) { e.ExpiresAt = e.ExpiresAt.Add(time.Millisecond) },
		"mac":           func(e *Entry) { e.MAC[0] ^= 1 },
		"no mac":        func(e *Entry) { e.MAC = nil },
	}, func(t *testing.T, alter func(*Entry)) {
		m := &memory{}
		e := m.add(t, "acct_1", "ovr_1", check.Block, Domain, "example.com")
		alter(e)
		x := newClocked(m).load(t)
		for _, account := range []string{"acct_1", "acct_2"} {
			expect.Equal(t, "what decides for "+account, x.find(t, account, entity.Domain, "example.com"), "")
		}
		expect.NoDiff(t, "ignored", []string{e.ID}, x.Ignored())
		x.at = x.at.Add(2 * reloadInterval)
		x.load(t)
		expect.That(t, strings.Count(x.log.String(), e.ID) == 1, "reported more than once: %s", x.log.String())
	})
}

func TestExpiredOverrideDoesNotDecide(t *testing.T) {
	t.Parallel()
	m := &memory{}
	m.add(t, "acct_1", "ovr_1", check.Block, Domain, "example.com")
	x := newClocked(m)
	for _, test := range []struct {
		after time.Duration
		want  string
	}{{0, "ovr_1"}, {time.Hour - 1, "ovr_1"}, {time.Hour, ""}} {
		x.at = start.Add(test.after)
		expect.Equal(t, fmt.Sprint("found after ", test.after),
			x.load(t).find(t, "acct_1", entity.Domain, "example.com"), test.want)
	}
}

// A host that could not read overrides for 5 s refuses the checks that they may concern, and no others.
func TestUnreadOverridesRefuseChecks(t *testing.T) {
	t.Parallel()
	m := &memory{}
	m.add(t, "", "all", check.Block, Range, "+4989")
	m.add(t, "acct_1", "own", check.Block, Domain, "example.com")
	x := newClocked(m)
	refused := func(account string, typ entity.Type, value string) bool {
		t.Helper()
		_, err := x.Find(account, expect.Value(entity.Parse(typ, value, ""))(t))
		var unavailable *check.UnavailableError
		expect.That(t, err == nil || errors.As(err, &unavailable) && unavailable.Reason() == "overrides",
			"refused as %v", err)
		return err != nil
	}
	expect.That(t, refused("acct_9", entity.Domain, "example.com") && x.Ready() != nil,
		"accepted a check before overrides were read")
	x.load(t)
	m.err = errors.New("the database does not respond")
	for _, test := range []struct {
		after              time.Duration
		own, others, phone bool
	}{{maxAge, false, false, false}, {maxAge + 1, true, false, true}} {
		x.at = start.Add(test.after)
		expect.Error(t, "loading", x.Load(t.Context()), m.err)
		expect.That(t, refused("acct_1", entity.IBAN, "DE89370400440532013000") == test.own && refused("acct_2",
			entity.Domain, "example.com") == test.others && refused("acct_2", entity.Phone,
			"+49301234567") == test.phone && (x.Ready() == nil) == !test.own, "wrong after %s", test.after)
	}
	m.err = nil
	expect.NoError(t, x.load(t).Ready())
	expect.That(t, !refused("acct_1", entity.Domain, "example.com"), "still refused after reading again")
}

// Polling reads changes only; all is read again from time to time and when the source went back.
func TestLoadReadsWhatChanged(t *testing.T) {
	t.Parallel()
	m := &memory{}
	m.add(t, "acct_1", "ovr_1", check.Block, Domain, "example.com")
	x := newClocked(m).load(t)
	x.load(t)
	m.add(t, "acct_2", "ovr_2", check.Block, Domain, "example.com")
	x.load(t)
	expect.Equal(t, "override", x.find(t, "acct_2", entity.Domain, "example.com"), "ovr_2")
	x.at = x.at.Add(reloadInterval)
	x.load(t)
	m.entries, m.last = map[string][]Entry{"acct_1": m.entries["acct_1"]}, 1
	x.load(t)
	expect.Equal(t, "override", x.find(t, "acct_2", entity.Domain, "example.com"), "")
	expect.NoDiff(t, "changes asked for", []int64{0, 1, 1, 0, 2, 0}, m.asked)
}

// With more overrides than can be read in time, a host starts and then follows what changes.
func TestManyOverrides(t *testing.T) {
	t.Parallel()
	m := &memory{}
	m.add(t, "acct_1", "ovr_1", check.Block, Domain, "example.com")
	x := newClocked(m)
	m.slow = func() { x.at = x.at.Add(2 * maxAge) }
	expect.NoError(t, x.load(t).Ready())
	x.at = x.at.Add(reloadInterval)
	m.add(t, "acct_2", "ovr_2", check.Block, Domain, "example.com")
	x.load(t).load(t)
	expect.Equal(t, "override", x.find(t, "acct_2", entity.Domain, "example.com"), "ovr_2")
	expect.NoDiff(t, "changes asked for", []int64{0, 1, 0, 1, 2}, m.asked)
}

func target(t testing.TB, kind Kind, value string) Target {
	t.Helper()
	return expect.Value(ParseTarget(kind, value, ""))(t)
}

func TestParseTarget(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		kind               Kind
		raw, want, refused string
	}{
		"domain":                   {Domain, "Login.Example.COM.", "login.example.com", ""},
		"internationalised domain": {Domain, "https://bücher.example/shop", "xn--bcher-kva.example", ""},
		"phone":                    {Phone, "+49 (0)30 1234567", "+49301234567", ""},
		"iban with spaces":         {IBAN, "de89 3704 0044 0532 0130 00", "DE89370400440532013000", ""},
		"registrable domain":       {Registrable, "Example.co.uk", "example.co.uk", ""},
		"a subdomain": {Registrable, "www.example.co.uk", "",
			"registrable_domain: must be 'example.co.uk', without a subdomain"},
		"a public suffix": {Registrable, "co.uk", "", "registrable_domain: is a public suffix"},
		"a shared host":   {Registrable, "weebly.com", "", "registrable_domain: is a public suffix or shared host"},
		"range":           {Range, "+49 30 12", "+493012", ""},
		"range with 00":   {Range, "0049-30", "+4930", ""},
		"national range":  {Range, "030 12", "", "number_range: must begin with '+'"},
		"trunk prefix":    {Range, "+49 (0) 30", "", "number_range: contains '(0)'"},
		"short range":     {Range, "+491", "", "number_range: has fewer than 2 digits after the country code"},
		"shortest range":  {Range, "+120", "+120", ""},
		"no country":      {Range, "+0123", "", "number_range: does not begin with a country code"},
		"whole number":    {Range, "+123456789012345", "", "number_range: has more than 14 digits"},
		"bank":            {Bank, "de 3704 0044", "DE37040044", ""},
		"bank of Britain": {Bank, "GBNWBK", "GBNWBK", ""},
		"short bank":      {Bank, "DE3704", "", "bank: must be DE and the 8 characters of the bank code"},
		"unknown country": {Bank, "US123", "", "bank: starts with 'US', which is not a country with IBANs"},
		"invalid email":   {Email, "jane", "", "email: has no '@'"},
	} {
		got, err := ParseTarget(test.kind, test.raw, "")
		expect.Outcome(t, name, err, test.refused)
		expect.That(t, errors.As(err, new(*entity.InvalidError)) || got == Target{test.kind, test.want}, "%s: %v, %v",
			name, got, err)
	}
}

func TestMasked(t *testing.T) {
	t.Parallel()
	for raw, test := range map[string]struct {
		kind Kind
		want string
	}{
		"paypa1-login.co.uk":     {Domain, "p...n.co.uk"},
		"shop.ab.example":        {Domain, "s...p.ab.example"},
		"ab.example":             {Registrable, "a....example"},
		"jane.roe@example.com":   {Email, "j...@example.com"},
		"+493012345678":          {Phone, "+49...78"},
		"DE89370400440532013000": {IBAN, "DE...3000"},
		"+493012":                {Range, "+493... (6 digits)"},
		"DE37040044":             {Bank, "DE...44"},
	} {
		expect.Equal(t, raw, target(t, test.kind, raw).Masked(), test.want)
	}
}

func TestValidate(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 1, 2, 0, 0, 0, 0, time.UTC)
	valid := Wanted{Action: check.Block, Target: target(t, Domain, "example.com"), Reason: "fraud ring",
		ExpiresAt: now.Add(MaxAge)}
	for name, test := range map[string]struct {
		change  func(*Wanted)
		refused string
	}{
		"valid":           {func(*Wanted) {}, ""},
		"review":          {func(w *Wanted) { w.Action = check.Review }, "action: must be block or allow"},
		"no expiry":       {func(w *Wanted) { w.ExpiresAt = time.Time{} }, "expires_at: is required"},
		"past":            {func(w *Wanted) { w.ExpiresAt = now }, "expires_at: must be in the future"},
		"over a year":     {func(w *Wanted) { w.ExpiresAt = now.Add(MaxAge + 1) }, "expires_at: must be within a year"},
		"no reason":       {func(w *Wanted) { w.Reason = " " }, "reason: is required"},
		"long reason":     {func(w *Wanted) { w.Reason = strings.Repeat("x", 501) }, "reason: is longer than 500"},
		"reason of lines": {func(w *Wanted) { w.Reason = "a\nb" }, "reason: contains control characters"},
		"long author":     {func(w *Wanted) { w.Author = strings.Repeat("x", 101) }, "author: is longer than 100"},
	} {
		w := valid
		test.change(&w)
		expect.Outcome(t, name, w.Validate(now), test.refused)
	}
}
