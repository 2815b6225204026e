package facts_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"assay/host/access/admission"
	"assay/host/check"
	"assay/host/entity"
	"assay/host/facts"
	"assay/registry/expect"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// fake is a source backed by a function.
type fake struct {
	name    string
	observe func(ctx context.Context, wants func(string) bool) (entity.Facts, error)
}

func (f fake) Name() string { return f.name }

func (f fake) Table() []entity.Fact {
	return []entity.Fact{{Name: f.name + ".text", Bytes: 6}, {Name: f.name + ".list", Kind: entity.List, Bytes: 9}}
}

func (f fake) Observe(ctx context.Context, _ entity.Entity, wants func(string) bool) (entity.Facts, error) {
	return f.observe(ctx, wants)
}

func gives(name string, found entity.Facts, err error) fake {
	return fake{name, func(context.Context, func(string) bool) (entity.Facts, error) { return found, err }}
}

func collector(t *testing.T, sources ...facts.Source) *facts.Collector {
	return facts.NewCollector(slog.New(slog.NewTextHandler(t.Output(), nil)), sources...)
}

var errOwn = errors.New("the database is busy")

func TestCollect(t *testing.T) {
	t.Parallel()
	unasked := fake{"graph", func(context.Context, func(string) bool) (entity.Facts, error) {
		t.Error("a source without wanted facts was queried")
		return nil, nil
	}}
	silent := fmt.Errorf("no luck: %w", facts.ErrUnanswered)
	type testCase struct {
		sources []facts.Source
		wanted  []string
		found   entity.Facts
		silent  []string
		refused bool
	}
	expect.Each(t, map[string]testCase{
		"nothing wanted": {sources: []facts.Source{unasked}, found: entity.Facts{}},
		"other sources wanted": {sources: []facts.Source{gives("dns", entity.Facts{"dns.a": "1"}, nil), unasked},
			wanted: []string{"dns.a", "sky.colour"}, found: entity.Facts{"dns.a": "1"}},
		"more facts than wanted are returned": {sources: []facts.Source{gives("dns",
			entity.Facts{"dns.a": "1", "dns.ns": "2", "net.asn": "3", "dns.mx": ""}, nil)},
			wanted: []string{"dns.a", "dns.mx", "net.asn"}, found: entity.Facts{"dns.a": "1"}},
		"a silent third party with partial facts": {
			sources: []facts.Source{gives("dns", entity.Facts{"dns.a": "1"}, silent),
				gives("net", entity.Facts{"net.asn": "2"}, nil)}, wanted: []string{"dns.a", "net.asn"},
			found: entity.Facts{"dns.a": "1", "net.asn": "2"}, silent: []string{"dns"}},
		"a third party that lies": {
			sources: []facts.Source{gives("dns", nil, facts.Join(facts.ErrUnanswered, facts.ErrUntrusted)),
				gives("net", entity.Facts{"net.asn": "2"}, nil)}, wanted: []string{"dns.a", "net.asn"},
			found: entity.Facts{"net.asn": "2"}, silent: []string{"untrusted:dns"}},
		"facts that are too long": {sources: []facts.Source{gives("dns",
			entity.Facts{"dns.text": "長長長", "dns.list": "one two three"}, nil)},
			wanted: []string{"dns.list", "dns.text"}, found: entity.Facts{"dns.text": "長長", "dns.list": "one two"}},
		"facts of the greatest length": {sources: []facts.Source{gives("dns",
			entity.Facts{"dns.text": "長a長", "dns.list": "one three four"}, nil)},
			wanted: []string{"dns.list", "dns.text"}, found: entity.Facts{"dns.text": "長a", "dns.list": "one three"}},
		"an own failure": {sources: []facts.Source{gives("rdap", nil, errOwn),
			gives("dns", entity.Facts{"dns.a": "1"}, nil)}, wanted: []string{"dns.a", "rdap.created"}, refused: true},
		"an own failure next to a silent third party": {
			sources: []facts.Source{gives("dns", nil, facts.Join(silent, errOwn))}, wanted: []string{"dns.a"},
			refused: true},
		"a panic": {sources: []facts.Source{gives("net", entity.Facts{"net.asn": "2"}, nil),
			fake{"dns", func(context.Context, func(string) bool) (entity.Facts, error) { panic("oh") }}},
			wanted: []string{"dns.a", "net.asn"}, refused: true},
	}, func(t *testing.T, tc testCase) {
		found, silent, err := collector(t, tc.sources...).Collect(t.Context(), "", entity.Entity{}, tc.wanted)
		expect.Must(t, errors.As(err, new(*check.UnavailableError)) == tc.refused && (tc.refused || err == nil),
			"error %v, want a refusal: %t", err, tc.refused)
		expect.NoDiff(t, "found", tc.found, found)
		expect.That(t, slices.Equal(tc.silent, silent), "silent: %v, want %v", silent, tc.silent)
	})
}

// Lookups count for whoever the context names, in whole, else for the account.
func TestHolder(t *testing.T) {
	t.Parallel()
	var holder string
	c := collector(t, fake{"dns", func(ctx context.Context, _ func(string) bool) (entity.Facts, error) {
		holder = admission.Holder(ctx)
		return nil, nil
	}})
	for named, want := range map[string]string{"": "acct_1", "network": "network", "acct_2|192.0.2.0/24": "acct_2"} {
		_, _, err := c.Collect(admission.WithHolder(t.Context(), named), "acct_1", entity.Entity{}, []string{"dns.a"})
		expect.NoError(t, err)
		expect.Equal(t, "holder", holder, want)
	}
}

// TestEndOfCheck checks that no facts are missing because the check's time is over: the check is refused, even if a
// source takes the end of the check for the silence of a third party, or ignores it.
func TestEndOfCheck(t *testing.T) {
	t.Parallel()
	released := make(chan struct{})
	defer close(released)
	for name, source := range map[string]fake{
		"a source that reports silence": {"dns", func(ctx context.Context, _ func(string) bool) (entity.Facts, error) {
			<-ctx.Done()
			return entity.Facts{"dns.a": "1"}, facts.ErrUnanswered
		}},
		"a source that ends with the context": {"feed", func(ctx context.Context, _ func(string) bool) (entity.Facts,
			error) {
			<-ctx.Done()
			return nil, ctx.Err()
		}},
		"a source that ignores its context": {"net", func(context.Context, func(string) bool) (entity.Facts, error) {
			<-released
			return entity.Facts{"net.asn": "late"}, nil
		}},
	} {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			asked := source.observe
			source.observe = func(ctx context.Context, wants func(string) bool) (entity.Facts, error) {
				cancel()
				return asked(ctx, wants)
			}
			found, silent, err := collector(t, source).Collect(ctx, "", entity.Entity{}, []string{source.name + ".a"})
			expect.That(t, errors.As(err, new(*check.UnavailableError)),
				"found %v, silent %v, error %v, want a refusal", found, silent, err)
		})
	}
}

// A source whose observations never end refuses an account's checks once its share of the slots is used up, but neither
// another account's nor those that do not need it.
func TestHangingSource(t *testing.T) {
	t.Parallel()
	released, running := make(chan struct{}), make(chan struct{}, 1<<16)
	deaf := fake{"net", func(context.Context, func(string) bool) (entity.Facts, error) {
		running <- struct{}{}
		<-released
		return nil, nil
	}}
	c := collector(t, deaf, gives("dns", entity.Facts{"dns.a": "1"}, nil))
	ended := expect.Ended(t)
	ask := func(account string) error {
		_, _, err := c.Collect(ended, account, entity.Entity{}, []string{"net.asn"})
		return err
	}
	for range 1024 {
		expect.Error(t, "within the share", ask("flood"), context.Canceled)
		<-running
	}
	err := ask("flood")
	expect.That(t, errors.As(err, new(*check.UnavailableError)) && errors.Is(err, admission.ErrShare),
		"error %v, want a refusal because the account's share is used up", err)
	expect.Error(t, "another account", ask("other"), context.Canceled)
	_, silent, err := c.Collect(t.Context(), "flood", entity.Entity{}, []string{"dns.a"})
	expect.That(t, len(silent) == 0 && err == nil, "without the hanging source: silent %v, error %v", silent, err)
	close(released)
}

func TestText(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		"NameSilo, LLC":              "NameSilo, LLC",
		" a\tb\x00c\n\u202ed\u2028 ": "a b c d",
		"\xff\xfeO\u0308":            "O\u0308",
		strings.Repeat("é", 50):      strings.Repeat("é", 40),
		"":                           "",
	} {
		expect.Equal(t, "Text of "+in, facts.Text(in), want)
	}
}

// A source whose lookups mostly have no answer is reported within a minute, and until lookups are answered again.
func TestJudge(t *testing.T) {
	t.Parallel()
	var now error
	c := collector(t, fake{"dns", func(context.Context, func(string) bool) (entity.Facts, error) { return nil, now }})
	lookUp := func(n int, err error) {
		now = err
		for range n {
			_, _, _ = c.Collect(t.Context(), "", entity.Entity{}, []string{"dns.one"})
		}
	}
	judge := func(what string, times int, failing ...string) {
		t.Helper()
		for range times {
			expect.NoError(t, c.Judge(t.Context()))
		}
		expect.NoDiff(t, what, failing, c.Failing())
	}
	const sentence = "more than half of the lookups of dns fail"
	judge("without lookups", 1)
	lookUp(19, facts.ErrUnanswered)
	judge("too few", 1)
	lookUp(100, facts.ErrPending)
	judge("asked in the background", 1)
	lookUp(1, facts.ErrUntrusted)
	judge("20 of 20", 1, sentence)
	lookUp(21, nil)
	judge("20 of 41", 1)
	lookUp(30, errOwn)
	judge("50 of 71", 1, sentence)
	judge("without new lookups", 7, sentence)
	lookUp(1, nil)
	judge("1 answer", 1)
	sources, count := c.Lookups()
	got := map[string]uint64{}
	for i, outcome := range facts.Outcomes {
		got[sources[0]+" "+outcome] = count(0, i)
	}
	expect.NoDiff(t, "lookups", map[string]uint64{"dns answered": 22, "dns pending": 100, "dns unanswered": 19,
		"dns untrusted": 1, "dns failed": 30}, got)
}
