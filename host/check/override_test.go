package check_test

import (
	"context"
	"errors"
	"net/netip"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"assay/host/access/admission"
	"assay/host/check"
	"assay/host/entity"
	"assay/registry/expect"
)

// fixedOverrides finds the same override for each check, and remembers the accounts.
type fixedOverrides struct {
	found    *check.Override
	err      error
	accounts []string
}

func (o *fixedOverrides) Find(account string, _ entity.Entity) (*check.Override, error) {
	o.accounts = append(o.accounts, account)
	return o.found, o.err
}

func TestOverrideHoldsTheScoreToTheBand(t *testing.T) {
	t.Parallel()
	type testCase struct {
		layer    int // what the layer scores, with a weight of 10
		override check.Override
		score    int
		threat   string
		said     string // of the override
	}
	expect.Each(t, map[string]testCase{
		"a block of what is allowed": {0, check.Override{Verdict: check.Block}, 70, "",
			"Blocked by your override ovr_1; the layers' score is 1"},
		"a block of what is reviewed": {50, check.Override{Verdict: check.Block}, 70, "phishing",
			"Blocked by your override ovr_1; the layers' score is 50"},
		"a block of what is blocked": {90, check.Override{Verdict: check.Block, Operator: true}, 98, "phishing",
			"Blocked by the operator's override ovr_1; the layers' score is 98"},
		"an allow of what is blocked": {90, check.Override{Verdict: check.Allow}, 39, "",
			"Allowed by your override ovr_1; the layers' score is 98"},
		"an allow of what is allowed": {0, check.Override{Verdict: check.Allow}, 1, "",
			"Allowed by your override ovr_1; the layers' score is 1"},
	}, func(t *testing.T, test testCase) {
		test.override.ID = "ovr_1"
		f, wanted := newFixture(t), []string{"Assay: " + test.said}
		var result check.Result
		if test.layer > 0 {
			result = check.Result{Score: test.layer, Threat: "phishing",
				Signals: []check.Signal{{Points: test.layer, Code: "a:b:c", Text: "accuses"}}}
			wanted = append(wanted, "accuses")
		}
		member := f.memberFunc("a", gives(result, nil))
		member.Weight = eachType(10)
		f.Live.Swap(check.NewLineup(1, eachType(-5), bands, []check.Member{member}))
		overrides := &fixedOverrides{found: &test.override}
		f.Overrides = overrides
		d := f.mustCheck(t, aDomain)
		var texts []string
		for _, s := range d.Signals {
			texts = append(texts, s.Text)
		}
		same(t, wanted, texts)
		verdict := test.override.Verdict
		expect.Equal(t, "code", d.Signals[0].Code, "host:override:"+string(verdict))
		event, _, err := d.Event()
		expect.That(t, err == nil && event == map[check.Verdict]string{check.Block: "check.blocked"}[verdict],
			"event %q, %v", event, err)
		expect.That(t, d.Score == test.score && d.Verdict == verdict && d.Threat == test.threat,
			"%d %s %q, want %d %s %q", d.Score, d.Verdict, d.Threat, test.score, verdict, test.threat)
		expect.That(t, d.Layers[0].Score == test.layer && d.Override.ID == "ovr_1" && test.override.Found == "",
			"layers %+v, override %+v, shared %+v", d.Layers, d.Override, test.override)
		recorded := f.records[0].Decision
		expect.That(t, recorded.Score == test.score &&
			recorded.Override.Found == bands.Verdict(recorded.Override.Score), "recorded %+v", recorded)
		same(t, []string{"acct_1"}, overrides.accounts)
	})
}

func TestWhoUsesOverrides(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.Live.Swap(check.NewLineup(1, eachType(0), bands, []check.Member{f.member("a")}))
	overrides := &fixedOverrides{found: &check.Override{ID: "ovr_1", Verdict: check.Block}}
	f.Overrides = overrides
	e := expect.Value(entity.Parse(entity.Domain, "example.com", ""))(t)
	d := expect.Value(f.Rescore(t.Context(), f.caller, e))(t).Decision
	expect.That(t, d.Override == nil && d.Verdict == check.Review && len(overrides.accounts) == 0,
		"scored for feedback as %+v", d)
	d, err := f.Explain(t.Context(), aDomain, "")
	expect.That(t, err == nil && d.Verdict == check.Block, "explained as %+v, %v", d, err)
	answers, err := f.CheckBatch(t.Context(), f.caller, append(batchOf(2), check.Item{}), nil)
	expect.That(t, err == nil && answers[0].Decision.Verdict == check.Block && answers[1].Decision.Override != nil,
		"batch answered %+v, %v", answers, err)
	same(t, []string{"", "acct_1", "acct_1"}, overrides.accounts)
}

// A host that does not know the overrides for a check refuses it before anything is scored.
func TestUnknownOverridesRefuseTheCheck(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.Live.Swap(check.NewLineup(1, eachType(0), bands, []check.Member{f.member("a")}))
	f.Overrides = &fixedOverrides{err: &check.UnavailableError{Part: "overrides", Err: errors.New("too old")}}
	for what, err := range map[string]error{"check": expect.ErrorOf(f.check(aDomain)),
		"batch": expect.ErrorOf(f.CheckBatch(t.Context(), f.caller, batchOf(1), nil))} {
		var unavailable *check.UnavailableError
		expect.That(t, errors.As(err, &unavailable) && strings.HasPrefix(unavailable.Error(), "overrides unavailable"),
			"%s: %v", what, err)
	}
	expect.That(t, len(f.ran) == 0 && len(f.records) == 0, "ran %v, recorded %v", f.ran, f.records)
}

// collectorFunc is a function that acts as a Collector.
type collectorFunc func(context.Context, entity.Entity, []string) (entity.Facts, []string)

func (f collectorFunc) Collect(ctx context.Context, _ string, e entity.Entity, wanted []string) (
	entity.Facts, []string, error) {
	facts, unanswered := f(ctx, e, wanted)
	return facts, unanswered, nil
}

func TestCollect(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.caller.Key, f.caller.Plan.Cents, f.caller.Network = "", 0, netip.MustParsePrefix("192.0.2.0/24")
	var wanted []string
	var holder string
	lookups := 0
	f.Collector = collectorFunc(func(ctx context.Context, _ entity.Entity, w []string) (entity.Facts, []string) {
		_, ok := ctx.Deadline()
		expect.That(t, ok, "lookups have no deadline")
		holder = admission.Holder(ctx)
		wanted = w
		lookups++
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
	parsed := f.member("parsed", entity.Email)
	parsed.Facts = []string{"domain.ascii", "entity.country", "config.list", "email.user", "phone.type", "iban.bank"}
	f.swap(1, reader, second, parsed)

	d := f.mustCheck(t, field(entity.Domain, "example.com"))
	same(t, []string{"dns.a", "rdap.created"}, wanted)
	expect.Equal(t, "the holder of the lookups", holder, "acct_1|192.0.2.0/24")
	for name, want := range map[string]string{"dns.a": "192.0.2.1", "domain.ascii": "example.com"} {
		got, _ := read.Get(name)
		expect.That(t, got == want, "the layer read %q for %s, want %q", got, name, want)
	}
	same(t, []check.Signal{
		{Code: "host:unknown:rdap", Text: "Assay: Scored without the domain's registration: no answer in time"},
		{Code: "host:untrusted:dns", Text: "Assay: Scored without DNS: the DNS server gives false answers"},
	}, d.Signals[len(d.Signals)-2:])
	same(t, entity.Facts{"dns.a": "192.0.2.1"}, f.records[0].LookedUp)
	_, ok := f.records[0].Entity.Facts["dns.a"]
	expect.That(t, !ok, "a looked-up fact became part of the entity")
	f.mustCheck(t, anEmail)
	expect.Equal(t, "lookups, of which parsed facts need none", lookups, 1)
	f.caller.Key = "key_1"
	expect.Value(f.Rescore(t.Context(), f.caller, f.records[0].Entity))(t)
	expect.Equal(t, "the holder of another's", holder, "network 192.0.2.0/24")
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

// A check is never scored from less than all its layers and facts because of the state of the host.
func TestIncompleteChecksAreRefused(t *testing.T) {
	t.Parallel()
	waits := func(ctx context.Context, _ check.Input) (check.Result, error) {
		<-ctx.Done()
		return check.Result{}, ctx.Err()
	}
	fails := func(reason check.FailureReason) layerFunc {
		return gives(check.Result{}, &check.Failure{Reason: reason, Err: errors.New("no result")})
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
			unavailable, refused := errors.AsType[*check.UnavailableError](err)
			expect.That(t, refused == (test.part != "") && (!refused || unavailable.Part == test.part),
				"the check ended with %v", err)
			expect.That(t, (len(f.records) == 1) == (test.part == ""), "%d records", len(f.records))
		})
	})
}

func TestEventMatchesTheContract(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 1, 2, 3, 4, 5, 60_000_000, time.UTC)
	signals := []check.Signal{
		{Points: 60, Code: "domain:brand:paypal", Text: "It imitates PayPal"},
		{Points: 5, Code: "domain:tld:risky", Text: "Its ending is often abused"},
	}
	type testCase struct {
		decision    check.Decision
		event, body string
	}
	expect.Each(t, map[string]testCase{
		"block": {
			check.Decision{Fused: check.Fused{Score: 94, Verdict: check.Block, Threat: "phishing", Signals: signals},
				Ref: "chk_1", Type: entity.Domain, Query: "paypa1.com", At: at, Revision: 3},
			"check.blocked",
			`{"event":"check.blocked","timestamp":"2026-01-02T03:04:05.060Z",` +
				`"data":{"query":"paypa1.com","type":"domain","verdict":"BLOCK","score":94,` +
				`"signals":["domain:brand:paypal","domain:tld:risky"],"ref":"chk_1"}}`,
		},
		"review without signals": {
			check.Decision{Fused: check.Fused{Score: 40, Verdict: check.Review}, Ref: "chk_2", Type: entity.IBAN,
				Query: "\"ä\\\u2028</b>", At: at.Truncate(time.Second)},
			"check.review",
			`{"event":"check.review","timestamp":"2026-01-02T03:04:05.000Z",` +
				`"data":{"query":"\"ä\\\u2028\u003c/b\u003e","type":"iban",` +
				`"verdict":"REVIEW","score":40,"signals":[],"ref":"chk_2"}}`,
		},
		"allow": {check.Decision{Fused: check.Fused{Score: 39, Verdict: check.Allow}, Ref: "chk_3", Type: entity.Domain,
			At: at}, "", ""},
	}, func(t *testing.T, c testCase) {
		event, body, err := c.decision.Event()
		expect.NoError(t, err)
		same(t, c.event, event)
		same(t, c.body, string(body))
	})
}
