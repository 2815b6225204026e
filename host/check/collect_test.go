package check_test

import (
	"context"
	"testing"

	"assay/host/check"
	"assay/host/entity"
	"assay/registry/expect"
)

// collectorFunc is a function that acts as a Collector.
type collectorFunc func(context.Context, entity.Entity, []string) (entity.Facts, []string)

func (f collectorFunc) Collect(
	ctx context.Context, _ string, e entity.Entity, wanted []string,
) (entity.Facts, []string, error) {
	facts, unanswered := f(ctx, e, wanted)
	return facts, unanswered, nil
}

func TestCollect(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	var wanted []string
	f.Collector = collectorFunc(func(ctx context.Context, _ entity.Entity, w []string) (entity.Facts, []string) {
		_, ok := ctx.Deadline()
		expect.That(t, ok, "lookups have no deadline")
		wanted = w
		return entity.Facts{"dns.a": "192.0.2.1"}, []string{"rdap", "untrusted:dns"}
	})
	var read check.Input
	reader := f.memberFunc("reader", func(_ context.Context, facts check.Input) (check.Result, error) {
		read = facts
		return check.Result{Score: 10}, nil
	}, entity.Domain)
	reader.Facts = []string{"rdap.created", "dns.a", "domain.ascii", "config.x", "entity.type"}
	second := f.member("second", entity.Domain, entity.IBAN)
	second.Facts = []string{"dns.a", "iban.bank"}
	f.swap(1, reader, second)

	d := f.mustCheck(t, field(entity.Domain, "example.com"))
	same(t, []string{"dns.a", "rdap.created"}, wanted)
	for name, want := range map[string]string{"dns.a": "192.0.2.1", "domain.ascii": "example.com"} {
		got, _ := read.Get(name)
		expect.That(t, got == want, "the layer read %q for %s, want %q", got, name, want)
	}
	same(t, []check.Signal{{
		Code: "host:unknown:rdap",
		Text: "Assay: Scored without the domain's registration: no answer in time",
	}, {
		Code: "host:untrusted:dns",
		Text: "Assay: Scored without DNS: the DNS server gives false answers",
	}}, d.Signals[len(d.Signals)-2:])
	same(t, entity.Facts{"dns.a": "192.0.2.1"}, f.records[0].LookedUp)
	_, ok := f.records[0].Entity.Facts["dns.a"]
	expect.That(t, !ok, "a looked-up fact became part of the entity")
}

func TestParsedFactsNeedNoLookup(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.Collector = collectorFunc(func(context.Context, entity.Entity, []string) (entity.Facts, []string) {
		t.Error("a lookup for facts that no layer reads")
		return nil, nil
	})
	m := f.member("parsed", entity.Domain)
	m.Facts = []string{"domain.ascii", "entity.country", "config.list", "email.user", "phone.type", "iban.bank"}
	f.swap(1, m)
	f.mustCheck(t, field(entity.Domain, "example.com"))
}

func TestReadsReputation(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	var members []check.Member
	facts := map[string][]string{
		"first_hand": {"domain.ascii", "dns.a"}, "graph": {"domain.ascii", "graph.blocked_share"},
		"lists": {"feed.listed"}, "similar": {"similar.distance"},
	}
	for name, read := range facts {
		m := f.member(name)
		m.Facts = read
		members = append(members, m)
	}
	f.swap(1, members...)
	for _, o := range f.mustCheck(t, aDomain).Layers {
		expect.That(t, o.ReadsReputation == (o.Layer != "first_hand"), "layer %s: ReadsReputation is %t", o.Layer,
			o.ReadsReputation)
	}
}
