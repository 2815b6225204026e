package reputation

import (
	"context"
	"log/slog"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"assay/host/entity"
	"assay/host/facts/feed"
	"assay/registry/expect"
	"assay/registry/suggest"
)

func newSimilar(t *testing.T, m *memoryStore) *Similar {
	t.Helper()
	s := NewSimilar(m, slog.New(slog.DiscardHandler))
	s.now = func() time.Time { return noon }
	expect.NoError(t, s.Load(t.Context()))
	return s
}

func similarTo(t *testing.T, s *Similar, kind entity.Type, value string) entity.Facts {
	t.Helper()
	return expect.Value(s.Observe(t.Context(), parse(t, kind, value), all))(t)
}

func TestSimilarFacts(t *testing.T) {
	t.Parallel()
	m := &memoryStore{}
	m.set(1, feed.List{Name: "Bad", Kind: feed.Bad, Category: "phishing"},
		"secure-paypal-login.xyz", "paypa1-online.com", "login.blumenwiesen.example", "short.example",
		"refund-department-7@gmail.com", "jane.smith@gmail.com")
	m.set(2, feed.List{Name: "Other", Kind: feed.Bad}, "secure-paypal-logins.top")
	m.set(3, feed.List{Name: "Good", Kind: feed.Good}, "paypal-online.com", "blumenwiese.example")
	m.set(4, feed.List{Name: "Old", Kind: feed.Bad, ExpiresAt: new(noon.Add(-time.Hour))}, "very-old-scam-shop.example")
	s := newSimilar(t, m)
	near := func(part, nearest, distance, letters, list, category string) entity.Facts {
		f := entity.Facts{"similar.part": part, "similar.distance": distance, "similar.letters": letters,
			"similar.list": list}
		if nearest != "" {
			f["similar.nearest"] = nearest
		}
		if category != "" {
			f["similar.category"] = category
		}
		return f
	}
	for name, tt := range map[string]struct {
		kind  entity.Type
		value string
		want  entity.Facts
	}{
		"another suffix": {entity.Domain, "securepaypallogin.top", near("domain", "secure-paypal-login.xyz", "0",
			"17", "Bad", "phishing")},
		"one letter": {entity.Domain, "www.secure-paypa1-login.top", near("domain", "secure-paypal-login.xyz",
			"1", "17", "Bad", "phishing")},
		"the nearest of two lists": {entity.Domain, "secure-paypal-loginss.example",
			near("domain", "secure-paypal-logins.top", "1", "19", "Other", "")},
		"a mailbox": {entity.Email, "refund.department8@yahoo.com", near("user", "", "1", "17", "Bad", "phishing")},
		"its own entry": {entity.Domain, "secure-paypal-login.xyz", near("domain", "secure-paypal-logins.top",
			"1", "18", "Other", "")},
		"below its own entry":        {entity.Domain, "blumenwiesen.example", nil},
		"a name on a good list":      {entity.Domain, "paypal-online.com", nil},
		"a good name's other suffix": {entity.Domain, "paypal-online.de", nil},
		"too short":                  {entity.Domain, "short.top", nil},
		"too far":                    {entity.Domain, "secure-bank-login.top", nil},
		"on an expired list":         {entity.Domain, "very-old-scam-shops.example", nil},
		"a mail domain": {entity.Email, "jane@secure-paypal-login.top", near("domain", "secure-paypal-login.xyz",
			"0", "17", "Bad", "phishing")},
		"a mailbox's own entry": {entity.Email, "refund-department-7@gmail.com", nil},
		"a person's name":       {entity.Email, "jane.smyth@gmail.com", nil},
		"a phone number":        {entity.Phone, "+4915123456789", nil},
	} {
		expect.NoDiff(t, name, tt.want, similarTo(t, s, tt.kind, tt.value))
	}
}

// The indexes follow imports and withdrawals. Unchanged lists are not read again.
func TestSimilarFollowsLists(t *testing.T) {
	t.Parallel()
	m := &memoryStore{pages: map[string]bool{"C blumenlieferung.example": true}}
	s := newSimilar(t, m)
	expect.Equal(t, "facts without lists", len(similarTo(t, s, entity.Domain, "secure-paypal-login.top")), 0)
	ctx, cancel := context.WithCancel(t.Context())
	s.poll = time.Hour // so that only hints trigger a load
	done := make(chan struct{})
	go func() { defer close(done); s.Run(ctx) }()
	defer func() { cancel(); <-done }()
	until := func(what string, holds func(entity.Facts) bool) {
		t.Helper()
		s.Hint()
		expect.Until(t, what, func() bool { return holds(similarTo(t, s, entity.Domain, "secure-paypal-login.top")) })
	}
	m.set(1, feed.List{Name: "A", Kind: feed.Bad}, "secure-paypal-login.xyz")
	until("an import", func(f entity.Facts) bool { return f["similar.nearest"] == "secure-paypal-login.xyz" })
	m.set(2, feed.List{Name: "B", Kind: feed.Bad}, "blumenwiese.example")
	before := (*s.lists.Load())[0].domains
	s.Hint()
	until("another list", func(entity.Facts) bool { return len(*s.lists.Load()) == 2 })
	expect.Equal(t, "an unchanged list was read again", (*s.lists.Load())[0].domains, before)
	m.set(1, feed.List{Name: "A", Kind: feed.Bad}, "secure-paypall-login.xyz")
	until("other content", func(f entity.Facts) bool { return f["similar.nearest"] == "secure-paypall-login.xyz" })
	m.withdraw("A")
	until("a withdrawal", func(f entity.Facts) bool { return f == nil })

	// A page on a bad list is ignored while its host is on a good list, whichever was imported first.
	listed := func(name string) bool {
		return similarTo(t, s, entity.Domain, "blumenlieferungen.example")["similar.nearest"] == name
	}
	m.set(3, feed.List{Name: "C", Kind: feed.Bad}, "blumenlieferung.example")
	until("a list with a page", func(entity.Facts) bool { return listed("blumenlieferung.example") })
	m.set(4, feed.List{Name: "Good", Kind: feed.Good}, "blumenlieferung.example")
	until("its host on a good list", func(entity.Facts) bool { return listed("") })
	m.withdraw("Good")
	until("the good list's withdrawal", func(entity.Facts) bool { return listed("blumenlieferung.example") })
}

// A list whose publisher confirms it expires later, without being read again.
func TestSimilarFollowsExpiry(t *testing.T) {
	t.Parallel()
	m, until := &memoryStore{}, noon.Add(time.Hour)
	m.set(1, feed.List{Name: "A", Kind: feed.Bad, ExpiresAt: &until}, "secure-paypal-login.xyz")
	s := newSimilar(t, m)
	later := until.Add(time.Hour)
	m.feeds[0].ExpiresAt = &later
	expect.NoError(t, s.Load(t.Context()))
	s.now = func() time.Time { return until }
	expect.That(t, similarTo(t, s, entity.Domain, "secure-paypal-login.top") != nil, "the confirmed list expired")
	s.now = func() time.Time { return later }
	expect.Equal(t, "facts after the list expired", len(similarTo(t, s, entity.Domain, "secure-paypal-login.top")), 0)
}

func randomForm(r *rand.Rand, length, letters int) form {
	b := make([]byte, length)
	for i := range b {
		b[i] = byte('a' + r.IntN(letters))
	}
	return form(b)
}

// edited changes, inserts or deletes up to n letters.
func edited(r *rand.Rand, f form, n int) form {
	s := string(f)
	for range n {
		at := r.IntN(len(s))
		c := string(rune('a' + r.IntN(26)))
		switch r.IntN(3) {
		case 0:
			s = s[:at] + c + s[at+1:]
		case 1:
			s = s[:at] + c + s[at:]
		default:
			s = s[:at] + s[at+1:]
		}
	}
	return form(s[:min(len(s), maxForm)])
}

func TestDistance(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(1, 2))
	for range 3000 {
		a, b := randomForm(r, 1+r.IntN(maxForm), 1+r.IntN(4)), randomForm(r, r.IntN(maxForm+1), 1+r.IntN(4))
		if r.IntN(2) == 0 {
			b = edited(r, a, 1+r.IntN(5)%len(a))
		}
		limit := r.IntN(maxForm + 1)
		want := min(suggest.EditDistance(string(a), string(b)), limit+1)
		got := newPattern(a).distance([]byte(b), limit)
		expect.Must(t, got == want, "distance of %q and %q, limit %d: %d, want %d", a, b, limit, got, want)
	}
}

// nearest finds the same distance as a scan of all entries.
func TestNearestIsComplete(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(3, 4))
	x := newNameIndex()
	var all []form
	for range 300 {
		f := randomForm(r, minForm+r.IntN(maxForm-minForm+1), 3)
		all = append(all, f)
		x.add(f, string(f), "")
		if r.IntN(3) == 0 { // so that some forms have several near entries
			f = edited(r, f, 1+r.IntN(2))
			all = append(all, f)
			x.add(f, string(f), "")
		}
	}
	hits := 0
	for range 600 {
		q := edited(r, all[r.IntN(len(all))], r.IntN(5))
		want := maxTolerance + 1
		for _, f := range all {
			if d := suggest.EditDistance(string(q), string(f)); d == 0 || d <= tolerance(len(f)) {
				want = min(want, d)
			}
		}
		got, ok := x.nearest(q)
		expect.Must(t, ok == (want <= maxTolerance), "nearest(%q) found: %v, want distance %d", q, ok, want)
		if ok {
			hits++
			d := suggest.EditDistance(string(q), x.name(got.entry))
			expect.Must(t, got.distance == want && d == want,
				"nearest(%q) = %q at distance %d; its true distance is %d, want %d", q, x.name(got.entry), got.distance,
				d, want)
		}
	}
	expect.That(t, hits >= 200, "%d searches had a match, want at least 200", hits)
}

func TestFormOf(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		want form
		ok   bool
	}{
		"secure-paypal-login":      {"securepaypallogin", true},
		"parcel-4711":              {"parcel0", true},
		"parcel-47123":             {"parcel0", true},
		"paypa1-login":             {"paypa1login", true},
		"a2b3c4d5e":                {"a2b3c4d5e", true},
		"paypal":                   {"paypal", false},
		"news24":                   {"news0", false},
		"12-34-56-78-90-12-34-56":  {"00000000", false},
		"1a2b3c4":                  {"1a2b3c4", false},
		"jane.doe_smith":           {"janedoesmith", true},
		"":                         {"", false},
		strings.Repeat("long", 20): {form(strings.Repeat("long", 20)[:maxForm]), true},
	} {
		got, ok := formOf(name)
		expect.That(t, got == tt.want && ok == tt.ok, "formOf(%q) = %q, %v, want %q, %v", name, got, ok, tt.want, tt.ok)
	}
	first, _ := formOf("сбербанк-онлайн")
	expect.Equal(t, "a Cyrillic name of 14 letters has a form of", len(first), 14)
	other, _ := formOf("сбербанк-онлаин")
	expect.Equal(t, "one different Cyrillic letter is a distance of", newPattern(first).distance([]byte(other), 5), 1)
}

func FuzzFormOf(f *testing.F) {
	f.Add("secure-paypal-login")
	f.Add("xn--\xff-\u00df12")
	f.Fuzz(func(t *testing.T, name string) {
		got, ok := formOf(name)
		expect.That(t, len(got) <= maxForm && (!ok || len(got) >= minForm), "formOf(%q) = %q, %v", name, got, ok)
		x := newNameIndex()
		if ok {
			x.add(got, name, "")
			n, found := x.nearest(got)
			expect.That(t, found && n.distance == 0 && x.name(n.entry) == name, "nearest does not find %q itself", name)
		}
	})
}

func TestSegments(t *testing.T) {
	t.Parallel()
	for length := minForm; length <= maxForm; length++ {
		cuts := tolerance(length)
		at := 0
		for i := range cuts + 1 {
			start, end := segment(length, cuts, i)
			expect.Must(t, start == at && end > start, "segment %d of %d letters is [%d, %d), want it to start at %d",
				i, length, start, end, at)
			at = end
		}
		expect.Must(t, at == length, "the segments of %d letters end at %d", length, at)
	}
}
