package check_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

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

func TestLayerReadsFactsAndItsConfig(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	m := f.memberFunc("a", func(_ context.Context, facts check.Input) (check.Result, error) {
		for name, want := range map[string]string{
			"domain.ascii": "example.com", "entity.country": "FR", "config.floor": "7", "config.config.x": "8",
			"floor": "", "config.": "", "config": "", "config.none": "", "config.domain.ascii": "", "entity.none": "",
		} {
			got, known := facts.Get(name)
			expect.That(t, got == want && known == (want != ""), "fact %s is %q, %t", name, got, known)
		}
		return check.Result{}, nil
	})
	m.Config = map[string]string{"floor": "7", "config.x": "8"}
	f.swap(1, m)
	f.mustCheck(t, aDomain)

	// Settings and facts have separate namespaces.
	facts := check.Input{
		Entity: entity.Facts{"config.x": "a fact"}, Config: map[string]string{"domain.ascii": "a setting",
			"": "a setting"},
	}
	for _, name := range []string{"config.x", "domain.ascii", "config.", ""} {
		got, known := facts.Get(name)
		expect.That(t, !known, "%s reads %q", name, got)
	}
}

func TestLayersShareTheDeadlineOfTheCheck(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.Deadline = 20 * time.Second
	var deadlines []time.Time
	m := f.memberFunc("a", func(ctx context.Context, _ check.Input) (check.Result, error) {
		deadline, ok := ctx.Deadline()
		left := time.Until(deadline)
		expect.That(t, ok && left <= f.Deadline, "the layer has %v (%t), more than %v", left, ok, f.Deadline)
		deadlines = append(deadlines, deadline)
		return check.Result{}, nil
	})
	f.swap(1, m, m)
	f.mustCheck(t, aDomain)
	expect.That(t, deadlines[0].Equal(deadlines[1]), "two layers have the deadlines %v", deadlines)
}

// TestIncompleteChecksAreRefused asserts that a check is never scored from less than all its layers and facts because
// of the state of the host.
func TestIncompleteChecksAreRefused(t *testing.T) {
	t.Parallel()
	waits := func(ctx context.Context, _ check.Input) (check.Result, error) {
		<-ctx.Done()
		return check.Result{}, ctx.Err()
	}
	fails := func(reason check.FailureReason) layerFunc {
		return func(context.Context, check.Input) (check.Result, error) {
			return check.Result{}, &check.Failure{Reason: reason, Err: errors.New("no result")}
		}
	}
	type testCase struct {
		layer    layerFunc
		required bool
		part     string // of the error; "" if the check is scored
	}
	expect.Each(t, map[string]testCase{
		"a layer past the deadline":    {layer: waits, part: "layer odd@1.0.0"},
		"a required layer that traps":  {layer: fails(check.Trap), required: true},
		"a layer that burned its fuel": {layer: fails(check.Exhausted)},
	}, func(t *testing.T, test testCase) {
		synctest.Test(t, func(t *testing.T) {
			f := newFixture(t)
			odd := f.memberFunc("odd", test.layer)
			odd.Required = test.required
			f.swap(1, f.member("other"), odd)
			_, err := f.check(aDomain)
			var unavailable *check.UnavailableError
			if errors.As(err, &unavailable); unavailable != nil != (test.part != "") ||
				unavailable != nil && unavailable.Part != test.part {
				t.Errorf("the check ended with %v", err)
			}
			recorded := len(f.records) == 1
			expect.That(t, recorded == (test.part == ""), "%d records", len(f.records))
		})
	})
}
