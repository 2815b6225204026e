package facts_test

import (
	"context"
	"testing"

	"assay/host/entity"
	"assay/host/facts"
	"assay/registry/expect"
)

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
