//go:build !wasip1

package sdk_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"assay/registry/expect"
	"assay/sdk"
)

// scored returns a layer that does something and scores.
func scored(do func(*sdk.Check)) sdk.Layer {
	return func(c *sdk.Check) sdk.Outcome {
		do(c)
		return sdk.Scored
	}
}

func TestRun(t *testing.T) {
	t.Parallel()
	facts := sdk.Facts{"entity.type": "domain", "domain.ascii": "example.com", "phone.valid": "yes",
		"phone.assumed": "no"}
	one := []sdk.Signal{{Points: 60, Code: "a:b:c", Text: "One"}}
	type testCase struct {
		layer sdk.Layer
		want  sdk.Result
	}
	expect.Each(t, map[string]testCase{
		"nothing said": {scored(func(*sdk.Check) {}), sdk.Result{}},
		"signals add up": {scored(func(c *sdk.Check) {
			c.Signal(60, "a:b:c", "One")
			c.Signal(-20, "a:b:d", "Two")
			c.Threat(sdk.Spam)
			c.Threat(sdk.Phishing) // the last call counts
		}), sdk.Result{Score: 40, Threat: sdk.Phishing,
			Signals: append(one, sdk.Signal{Points: -20, Code: "a:b:d", Text: "Two"})}},
		"facts read are recorded in their order, known or not": {scored(func(c *sdk.Check) {
			for i, name := range []sdk.TextFact{"domain.tld", "domain.ascii"} {
				want := []string{"", "example.com"}[i]
				if got, known := c.Fact(name); got != want || known != (want != "") || c.Get(name) != want {
					c.Log(sdk.Error, fmt.Sprintf("%s is %q, %t", name, got, known))
				}
			}
		}), sdk.Result{Read: []string{"domain.tld", "domain.tld", "domain.ascii", "domain.ascii"}}},
		"yes, no and not known": {scored(func(c *sdk.Check) {
			for _, name := range []sdk.YesNoFact{"phone.valid", "phone.assumed", "phone.none", "entity.type"} {
				c.Log(sdk.Info, fmt.Sprint(c.Is(name), c.Not(name)))
			}
		}), sdk.Result{Log: []string{"true false", "false true", "false false", "false false"},
			Read: []string{"phone.valid", "phone.valid", "phone.assumed", "phone.assumed", "phone.none",
				"phone.none", "entity.type", "entity.type"}}},
		"an abstaining layer's points do not count": {func(c *sdk.Check) sdk.Outcome {
			c.Signal(60, "a:b:c", "One")
			return sdk.Abstained
		}, sdk.Result{Outcome: sdk.Abstained, Signals: one}},
		"a failed layer's neither": {func(c *sdk.Check) sdk.Outcome {
			c.Signal(60, "a:b:c", "One")
			return c.Fail("no table for " + c.Get("entity.type"))
		}, sdk.Result{Outcome: sdk.Failed, Signals: one, Log: []string{"no table for domain"},
			Read: []string{"entity.type"}}},
	}, func(t *testing.T, c testCase) { expect.NoDiff(t, "result", c.want, sdk.Run(c.layer, facts)) })
}

func TestCount(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]int{
		"0": 0, "7": 7, "42": 42, "999999999": 999999999,
		"": -1, "1000000000": -1, "-1": -1, "+1": -1, "01": -1, "00": -1, " 1": -1, "1 ": -1, "1e3": -1, "１": -1,
		"/": -1, ":": -1,
	} {
		sdk.Run(func(c *sdk.Check) sdk.Outcome {
			if n, known := c.Count("graph.seen"); known != (want >= 0) || known && n != want || !known && n != 0 {
				t.Errorf("Count of %q is %d, %t", text, n, known)
			}
			if _, known := c.Count("graph.customers"); known || !c.Has("graph.seen") || c.Has("graph.customers") {
				t.Error("an absent fact is known, or a known one absent")
			}
			return sdk.Scored
		}, sdk.Facts{"graph.seen": text})
	}
}

func TestList(t *testing.T) {
	t.Parallel()
	for text, want := range map[string][]string{
		"": nil, "a": {"a"}, "a.example b.example": {"a.example", "b.example"},
	} {
		sdk.Run(func(c *sdk.Check) sdk.Outcome {
			expect.NoDiff(t, "the list of "+text, want, slices.Collect(c.List(sdk.DNSNS)))
			expect.Equal(t, "entries of an absent list", len(slices.Collect(c.List(sdk.DNSMX))), 0)
			return sdk.Scored
		}, sdk.Facts{"dns.ns": text})
	}
}

func TestJoin(t *testing.T) {
	t.Parallel()
	expect.Equal(t, "joined", sdk.Join("a", "", "bc", "d")+sdk.Join()+sdk.Join(""), "abcd")
}

func TestScoreIsClamped(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		points []int
		want   int
	}{
		"no signals": {nil, 0}, "no points": {[]int{0, 0}, 0}, "below nothing": {[]int{-1}, -1},
		"less than all": {[]int{-100, -100}, -100}, "just above nothing": {[]int{-1, 2}, 1}, "all": {[]int{100}, 100},
		"all together": {[]int{99, 1}, 100}, "more than all": {[]int{100, 1}, 100},
		"held at the end, after going up":   {[]int{-100, 100, 100}, 100},
		"held at the end, after going down": {[]int{100, 100, -50}, 100},
	} {
		got := sdk.Run(scored(func(check *sdk.Check) {
			for _, p := range c.points {
				check.Signal(p, "a:b:c", "x")
			}
		}), nil)
		expect.That(t, got.Score == c.want && got.Refused == nil, "%s: the score is %d (%v), want %d", name, got.Score,
			got.Refused, c.want)
	}
}

func TestRefusedAnswers(t *testing.T) {
	t.Parallel()
	good := func(c *sdk.Check) { c.Signal(10, "a:b:c", "x") }
	many := func(n int) func(*sdk.Check) {
		return func(c *sdk.Check) {
			for range n {
				good(c)
			}
		}
	}
	type testCase struct {
		answer  func(*sdk.Check)
		refused string // part of the reason; "" if accepted
	}
	expect.Each(t, map[string]testCase{
		"one signal":             {good, ""},
		"64 signals":             {many(64), ""},
		"65 signals":             {many(65), "more than 64 signals"},
		"the most points":        {func(c *sdk.Check) { c.Signal(100, "a:b:c", "x") }, ""},
		"the fewest points":      {func(c *sdk.Check) { c.Signal(-100, "a:b:c", "x") }, ""},
		"a point too many":       {func(c *sdk.Check) { c.Signal(101, "a:b:c", "x") }, "a:b:c is worth 101 points"},
		"a point too few":        {func(c *sdk.Check) { c.Signal(-101, "a:b:c", "x") }, "a:b:c is worth -101 points"},
		"no code":                {func(c *sdk.Check) { c.Signal(1, "", "x") }, "signal code"},
		"no text":                {func(c *sdk.Check) { c.Signal(1, "a:b:c", "") }, "text is empty"},
		"a line end in the text": {func(c *sdk.Check) { c.Signal(1, "a:b:c", "x\ny") }, "U+000A"},
		"every published threat": {func(c *sdk.Check) {
			for _, threat := range sdk.Threats() {
				c.Threat(threat)
			}
		}, ""},
		"another threat": {func(c *sdk.Check) { c.Threat("doom") }, `threat "doom"`},
		"the first reason is reported": {func(c *sdk.Check) { c.Threat("doom"); c.Signal(500, "", ""); good(c) },
			`threat "doom"`},
	}, func(t *testing.T, c testCase) {
		got := sdk.Run(scored(c.answer), nil)
		expect.That(t, (got.Refused == nil) == (c.refused == "") && (got.Refused == nil ||
			strings.Contains(got.Refused.Error(), c.refused) && got.Score == 0),
			"refused: %v, want %q, with the score %d", got.Refused, c.refused, got.Score)
		expect.That(t, len(got.Signals) <= sdk.MaxSignals && got.Threat != "doom",
			"kept %d signals and the threat %q", len(got.Signals), got.Threat)
	})
}

func TestLongFactNamesReadAsAbsent(t *testing.T) {
	t.Parallel()
	longest := "config." + strings.Repeat("x", sdk.MaxFactName-len("config."))
	sdk.Run(func(c *sdk.Check) sdk.Outcome {
		expect.That(t, c.Get(sdk.TextFact(longest)) == "value", "a fact with a name of %d bytes is absent",
			len(longest))
		value, known := c.Fact(sdk.TextFact(longest + "x"))
		expect.That(t, !known && value == "", "a fact with a name of %d bytes reads %q", len(longest)+1, value)
		return sdk.Scored
	}, sdk.Facts{longest: "value", longest + "x": "value"})
}

func TestLogIsBounded(t *testing.T) {
	t.Parallel()
	got := sdk.Run(func(c *sdk.Check) sdk.Outcome {
		c.Log(sdk.Debug, "first")
		for range 100 {
			c.Log(sdk.Warn, strings.Repeat("x", 100))
		}
		return sdk.Scored
	}, nil)
	all := strings.Join(got.Log, "\n") + "\n" // in the host's format
	expect.That(t, (len(all) == sdk.LogBytes || len(all) == sdk.LogBytes+1) && got.Log[0] == "first" &&
		got.Refused == nil, "kept %d bytes of log, beginning with %q, refused: %v", len(all), got.Log[0], got.Refused)
}
