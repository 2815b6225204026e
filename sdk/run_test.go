//go:build !wasip1

package sdk_test

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"assay/registry/expect"
	"assay/sdk"
)

func TestRun(t *testing.T) {
	t.Parallel()
	facts := sdk.Facts{"entity.type": "domain", "domain.ascii": "example.com", "phone.valid": "yes",
		"phone.assumed": "no"}
	for _, c := range []struct {
		name  string
		layer sdk.Layer
		want  sdk.Result
	}{
		{"nothing said", func(*sdk.Check) sdk.Outcome { return sdk.Scored }, sdk.Result{}},
		{
			"signals add up",
			func(c *sdk.Check) sdk.Outcome {
				c.Signal(60, "a:b:c", "One")
				c.Signal(-20, "a:b:d", "Two")
				c.Threat(sdk.Spam)
				c.Threat(sdk.Phishing) // the last call counts
				return sdk.Scored
			},
			sdk.Result{
				Score: 40, Threat: sdk.Phishing,
				Signals: []sdk.Signal{{Points: 60, Code: "a:b:c", Text: "One"},
					{Points: -20, Code: "a:b:d", Text: "Two"}},
			},
		},
		{
			"reassuring signals add up",
			func(c *sdk.Check) sdk.Outcome {
				c.Signal(-60, "a:b:c", "Registered since 2009")
				c.Signal(10, "a:b:d", "Two")
				return sdk.Scored
			},
			sdk.Result{Score: -50, Signals: []sdk.Signal{{Points: -60, Code: "a:b:c", Text: "Registered since 2009"},
				{Points: 10, Code: "a:b:d", Text: "Two"}}},
		},
		{
			"a sum below -100",
			func(c *sdk.Check) sdk.Outcome {
				c.Signal(-60, "a:b:c", "One")
				c.Signal(-60, "a:b:c", "One")
				return sdk.Scored
			},
			sdk.Result{Score: -100, Signals: []sdk.Signal{{Points: -60, Code: "a:b:c", Text: "One"},
				{Points: -60, Code: "a:b:c", Text: "One"}}},
		},
		{
			"facts read are recorded, known or not",
			func(c *sdk.Check) sdk.Outcome {
				for name, want := range map[sdk.TextFact]string{"domain.ascii": "example.com", "domain.tld": ""} {
					if got, known := c.Fact(name); got != want || known != (want != "") || c.Get(name) != want {
						c.Log(sdk.Error, fmt.Sprintf("%s is %q, %t", name, got, known))
					}
				}
				return sdk.Scored
			},
			sdk.Result{Read: []string{"domain.ascii", "domain.ascii", "domain.tld", "domain.tld"}},
		},
		{
			"yes, no and not known",
			func(c *sdk.Check) sdk.Outcome {
				for _, name := range []sdk.YesNoFact{"phone.valid", "phone.assumed", "phone.none", "entity.type"} {
					c.Log(sdk.Info, fmt.Sprint(c.Is(name), c.Not(name)))
				}
				return sdk.Scored
			},
			sdk.Result{
				Log: []string{"true false", "false true", "false false", "false false"},
				Read: []string{
					"phone.valid", "phone.valid", "phone.assumed", "phone.assumed", "phone.none", "phone.none",
					"entity.type", "entity.type",
				},
			},
		},
		{
			"an abstaining layer's points do not count",
			func(c *sdk.Check) sdk.Outcome {
				c.Signal(60, "a:b:c", "One")
				return sdk.Abstained
			},
			sdk.Result{Outcome: sdk.Abstained, Signals: []sdk.Signal{{Points: 60, Code: "a:b:c", Text: "One"}}},
		},
		{
			"a failed layer's neither",
			func(c *sdk.Check) sdk.Outcome {
				c.Signal(60, "a:b:c", "One")
				return c.Fail("no table for " + c.Get("entity.type"))
			},
			sdk.Result{Outcome: sdk.Failed, Signals: []sdk.Signal{{Points: 60, Code: "a:b:c", Text: "One"}},
				Log: []string{"no table for domain"}, Read: []string{"entity.type"}},
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			got := sdk.Run(c.layer, facts)
			slices.Sort(got.Log)
			slices.Sort(c.want.Log)
			slices.Sort(got.Read)
			slices.Sort(c.want.Read)
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestFactsAreReadInOrder(t *testing.T) {
	t.Parallel()
	got := sdk.Run(func(c *sdk.Check) sdk.Outcome {
		for _, name := range []sdk.TextFact{"b.b", "a.a", "c.c", "a.a"} {
			c.Get(name)
		}
		return sdk.Scored
	}, sdk.Facts{"a.a": "x"})
	if diff := cmp.Diff([]string{"b.b", "a.a", "c.c", "a.a"}, got.Read); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestCount(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]int{
		"0": 0, "7": 7, "42": 42, "999999999": 999999999,
		"": -1, "1000000000": -1, "-1": -1, "+1": -1, "01": -1, "00": -1, " 1": -1, "1 ": -1, "1e3": -1, "１": -1,
		"/": -1,
		":": -1,
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
			if got := slices.Collect(c.List(sdk.DNSNS)); !slices.Equal(got, want) {
				t.Errorf("the list of %q is %q", text, got)
			}
			if got := slices.Collect(c.List(sdk.DNSMX)); len(got) > 0 {
				t.Errorf("an absent list is %q", got)
			}
			return sdk.Scored
		}, sdk.Facts{"dns.ns": text})
	}
}

func TestJoin(t *testing.T) {
	t.Parallel()
	if got := sdk.Join("a", "", "bc", "d") + sdk.Join() + sdk.Join(""); got != "abcd" {
		t.Errorf("joined: %q", got)
	}
}

func TestScoreIsClamped(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name   string
		points []int
		want   int
	}{
		{"no signals", nil, 0},
		{"no points", []int{0, 0}, 0},
		{"below nothing", []int{-1}, -1},
		{"less than all", []int{-100, -100}, -100},
		{"just above nothing", []int{-1, 2}, 1},
		{"all", []int{100}, 100},
		{"all together", []int{99, 1}, 100},
		{"more than all", []int{100, 1}, 100},
		{"held at the end, after going up", []int{-100, 100, 100}, 100},
		{"held at the end, after going down", []int{100, 100, -50}, 100},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			got := sdk.Run(func(check *sdk.Check) sdk.Outcome {
				for _, p := range c.points {
					check.Signal(p, "a:b:c", "x")
				}
				return sdk.Scored
			}, nil)
			expect.That(t, got.Score == c.want && got.Refused == nil, "points %v score %d (%v), want %d", c.points,
				got.Score, got.Refused, c.want)
		})
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
	for _, c := range []struct {
		name    string
		answer  func(*sdk.Check)
		refused string // substring of the reason; "" if accepted
	}{
		{"one signal", good, ""},
		{"64 signals", many(64), ""},
		{"65 signals", many(65), "more than 64 signals"},
		{"the most points", func(c *sdk.Check) { c.Signal(100, "a:b:c", "x") }, ""},
		{"the fewest points", func(c *sdk.Check) { c.Signal(-100, "a:b:c", "x") }, ""},
		{"a point too many", func(c *sdk.Check) { c.Signal(101, "a:b:c", "x") }, "a:b:c is worth 101 points"},
		{"a point too few", func(c *sdk.Check) { c.Signal(-101, "a:b:c", "x") }, "a:b:c is worth -101 points"},
		{"points beyond all", func(c *sdk.Check) { c.Signal(math.MaxInt, "a:b:c", "x") }, "a:b:c is worth"},
		{"no code", func(c *sdk.Check) { c.Signal(1, "", "x") }, "signal code"},
		{"a code of two words", func(c *sdk.Check) { c.Signal(1, "a:b", "x") }, "signal code"},
		{"no text", func(c *sdk.Check) { c.Signal(1, "a:b:c", "") }, "text is empty"},
		{"a line end in the text", func(c *sdk.Check) { c.Signal(1, "a:b:c", "x\ny") }, "U+000A"},
		{"every published threat", func(c *sdk.Check) {
			for _, threat := range sdk.Threats() {
				c.Threat(threat)
			}
		}, ""},
		{"another threat", func(c *sdk.Check) { c.Threat("doom") }, `threat "doom"`},
		{"no threat", func(c *sdk.Check) { c.Threat("") }, `threat ""`},
		{"the first reason is reported", func(c *sdk.Check) { c.Threat("doom"); c.Signal(500, "", ""); good(c) },
			`threat "doom"`},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			got := sdk.Run(func(check *sdk.Check) sdk.Outcome {
				c.answer(check)
				return sdk.Scored
			}, nil)
			expect.That(t, c.refused != "" || got.Refused == nil, "refused: %v", got.Refused)
			expect.That(t, c.refused == "" || got.Refused != nil && strings.Contains(got.Refused.Error(), c.refused),
				"refused: %v, want %q", got.Refused, c.refused)
			expect.That(t, got.Refused == nil || got.Score == 0, "a refused answer scores %d", got.Score)
			expect.That(t, len(got.Signals) <= sdk.MaxSignals && got.Threat != "doom",
				"kept %d signals and the threat %q", len(got.Signals), got.Threat)
		})
	}
}

func TestLongFactNamesReadAsAbsent(t *testing.T) {
	t.Parallel()
	longest := "config." + strings.Repeat("x", sdk.MaxFactName-len("config."))
	sdk.Run(func(c *sdk.Check) sdk.Outcome {
		expect.That(t, c.Get(sdk.TextFact(longest)) == "value", "a fact with a name of %d bytes is absent",
			len(longest))
		if value, known := c.Fact(sdk.TextFact(longest + "x")); known || value != "" {
			t.Errorf("a fact with a name of %d bytes reads %q", len(longest)+1, value)
		}
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

func TestRunsAreIndependent(t *testing.T) {
	t.Parallel()
	layer := func(c *sdk.Check) sdk.Outcome {
		c.Signal(10, "a:b:c", c.Get("a.a"))
		return sdk.Scored
	}
	first, second := sdk.Run(layer, sdk.Facts{"a.a": "one"}), sdk.Run(layer, sdk.Facts{"a.a": "two"})
	expect.That(t, len(first.Signals) == 1 && first.Signals[0].Text == "one" && len(second.Signals) == 1 &&
		second.Signals[0].Text == "two", "two runs gave %v and %v", first.Signals, second.Signals)
}
