package reputation

import (
	"context"
	"log/slog"
	"testing"
	"time"

	"assay/host/entity"
	"assay/host/facts/feed"
	"assay/registry/expect"
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
	until := noon.Add(-time.Hour)
	m.set(4, feed.List{Name: "Old", Kind: feed.Bad, ExpiresAt: &until}, "very-old-scam-shop.example")
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
		"a mailbox": {entity.Email, "refund.department8@yahoo.com",
			near("user", "", "1", "17", "Bad", "phishing")},
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
	unloaded := NewSimilar(m, slog.New(slog.DiscardHandler))
	expect.Error(t, "before Load",
		expect.ErrorOf(unloaded.Observe(t.Context(), parse(t, entity.Domain, "example.org"), all)), errNotLoaded)
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
	got := similarTo(t, s, entity.Domain, "secure-paypal-login.top")
	expect.That(t, got != nil, "the list expired although it was confirmed")
	s.now = func() time.Time { return later }
	expect.Equal(t, "facts after the list expired", len(similarTo(t, s, entity.Domain, "secure-paypal-login.top")), 0)
}
