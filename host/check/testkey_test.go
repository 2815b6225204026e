package check_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"assay/host/access/apikey"
	"assay/host/check"
	"assay/host/entity"
	"assay/registry/expect"
)

// newTestKey returns a fixture whose caller has a test key. It has no lineup, which nothing may need.
func newTestKey(t *testing.T) *fixture {
	f := newFixture(t)
	f.caller.Limits = apikey.Limits{Test: true}
	return f
}

func TestTestValues(t *testing.T) {
	t.Parallel()
	f := newTestKey(t)
	for _, v := range check.TestValues() {
		t.Run(string(v.Type)+" "+v.Answer, func(t *testing.T) {
			t.Parallel()
			value := v.Value
			if v.Type == entity.Email {
				value = "Jane.Doe+1@" + v.Value
			}
			if e, err := entity.Parse(v.Type, value, "FR"); err != nil || !strings.HasSuffix(e.Value, v.Value) {
				t.Fatalf("parsed as %q, %v", e.Value, err)
			}
			d, err := f.check(field(v.Type, " "+value+" "))
			switch v.Answer {
			case check.TestQuota:
				var quota *check.QuotaError
				expect.That(t, errors.As(err, &quota) && quota.Quota == f.caller.Plan.Quota &&
					quota.ResetAt.Equal(time.Date(2026, 2, 1, 0, 0, 0, 0, time.UTC)),
					"error %v, want a *QuotaError until February", err)
			case check.TestUnavailable:
				var unavailable *check.UnavailableError
				expect.That(t, errors.As(err, &unavailable), "error %v, want an *UnavailableError", err)
			default:
				expect.NoError(t, err)
				expect.That(t, string(d.Verdict) == v.Answer && bands.Verdict(d.Score) == d.Verdict &&
					len(d.Signals) == 1 && (d.Threat == "") == (d.Verdict == check.Allow) && d.Type == v.Type &&
					d.Query == " "+value+" " && strings.HasPrefix(d.Ref, "test_") && len(d.Ref) == len("test_")+26,
					"%+v", d)
			}
		})
	}
	t.Cleanup(func() {
		expect.That(t, len(f.records) == 0 && len(f.done) == 0 && len(f.ran) == 0,
			"%d records, %d observed, layers %v; want no trace", len(f.records), len(f.done), f.ran)
	})
}

func TestTestKeysCheckNothingElse(t *testing.T) {
	t.Parallel()
	f := newTestKey(t)
	free, _ := check.PlanNamed("free")
	for _, c := range []struct {
		name  string
		plan  check.Plan
		field check.Field
		want  string
	}{
		{"a real domain", f.caller.Plan, field(entity.Domain, "example.com"),
			"domain: is not a test value such as allow.test, and a test key checks no other"},
		{"a name under a test value", f.caller.Plan, field(entity.Domain, "www.block.test"), "such as allow.test"},
		{"a real mailbox", f.caller.Plan, field(entity.Email, "jane@example.com"), "such as jane@allow.test"},
		{"a real number", f.caller.Plan, field(entity.Phone, "+4930123456"), "such as +12025550100"},
		{"a real IBAN", f.caller.Plan, field(entity.IBAN, "DE89370400440532013000"), "such as GB05TEST00000000000000"},
		{"a domain as an address", f.caller.Plan, field(entity.Email, "block.test"), "email: "},
		{"a type that the plan lacks", free, field(entity.Phone, "+12025550100"), "the free plan does not cover phone"},
	} {
		caller := f.caller
		caller.Plan = c.plan
		d, err := f.Check(t.Context(), check.Request{Caller: caller, Fields: []check.Field{c.field}})
		expect.That(t, d == nil && err != nil && strings.Contains(err.Error(), c.want),
			"%s: got %+v, %v; want an error with %q", c.name, d, err, c.want)
	}
}

func TestBatchWithTestKey(t *testing.T) {
	t.Parallel()
	f := newTestKey(t)
	item := func(t entity.Type, value string) check.Item {
		return check.Item{Fields: []check.Field{field(t, value)}}
	}
	unreadable := errors.New("unreadable")
	answers, err := f.CheckBatch(t.Context(), f.caller, []check.Item{
		item(entity.Domain, "block.test"), {Err: unreadable},
		item(entity.Domain, "example.com"), item(entity.Email, "jo@allow.test")}, nil)
	expect.NoError(t, err)
	var invalid *entity.InvalidError
	if answers[0].Decision.Verdict != check.Block || answers[1].Err != unreadable || //nolint:errorlint // the same
		!errors.As(answers[2].Err, &invalid) || answers[3].Decision.Verdict != check.Allow {
		t.Errorf("answers %+v", answers)
	}
	var quota *check.QuotaError
	items := []check.Item{item(entity.Domain, "block.test"), item(entity.Domain, "quota.test")}
	_, err = f.CheckBatch(t.Context(), f.caller, items, nil)
	expect.That(t, errors.As(err, &quota), "a batch with quota.test: %v", err)
	expect.That(t, len(f.records)+len(f.done)+len(f.ran) == 0, "%d records, %d observed, layers %v; want no trace",
		len(f.records), len(f.done), f.ran)
}
