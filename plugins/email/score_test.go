package main

import (
	"strings"
	"testing"

	"assay/host/check"
	"assay/plugins/internal/wordlist"
	"assay/registry/expect"
	"assay/registry/layertest"
	"assay/sdk"
)

// TestVerdicts runs the cases, and checks which verdicts the points cause when every other layer scores 0.
func TestVerdicts(t *testing.T) {
	t.Parallel()
	suite := layertest.Open(t, ".")
	suite.RunCases(t, Score)
	layertest.Abstains(t, Score, map[string]sdk.Facts{"user": {"entity.type": "email", "email.local": "paypal-pay"}})
	suite.CheckVerdict(t, check.Block, blocks, named)
	suite.CheckVerdict(t, check.Review, reviews, adds)
	expect.That(t, suite.Verdict(t, hints) != check.Block, "%d points alone lead to a block", hints)
}

// The layer learned from these rows; the trainer measures it on rows that it held out.
func TestLabelled(t *testing.T) {
	t.Parallel()
	layertest.Open(t, ".").Labelled(t, Score, layertest.Limits{Rows: 2000, Points: 22, Found: 0.1})
}

// TestListsSearchable checks that binary search finds every word of the lists.
func TestListsSearchable(t *testing.T) {
	t.Parallel()
	for name, list := range map[string]string{
		"moneyWords": moneyWords, "deskWords": deskWords, "fillers": fillers, "families": families,
		"officeWords": officeWords,
	} {
		expect.Equal(t, name+": the list is out of order at", wordlist.Fault(list), "")
		expect.Equal(t, name+": the list has upper-case letters", list, strings.ToLower(list))
	}
}

// TestWordsReachable checks maxWord and secondLetters: a word that they rule out would never be found.
func TestWordsReachable(t *testing.T) {
	t.Parallel()
	longest := 0
	for _, word := range strings.Fields(moneyWords + deskWords + fillers) {
		longest = max(longest, len(word))
		expect.That(t, mayStartWord(word), "secondLetters rules out %q", word)
		expect.That(t, segment(word).whole, "segment does not find %q", word)
	}
	expect.Equal(t, "the longest word", longest, maxWord)
}

func TestRunsAlongKeyboard(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]bool{
		"asdkjhqwe8273": true, "qwerty": true, "qwert{": true, "asdfg": true, "lkjhgf": true, "zxcvbnm99": true,
		"qweasdzxc": true, "poiuytrewq": true, "": false, "asd": false, "asdf": false, "robertpower": false,
		"property": false, "wertheimer": false, "jeanpierre": false, "qwertymusicstudio": false, "123456": false,
		"asasasas": false, "pertwee": false,
	} {
		expect.Equal(t, "runsAlongKeyboard of "+name, runsAlongKeyboard(name), want)
	}
}

func FuzzScore(f *testing.F) {
	suite := layertest.Open(f, ".")
	f.Add("jane.doe", "mailinator.com", "", "mailinator", "com", "icann")
	f.Add("paypal-support", "gmail.com", "google", "gmail", "com", "icann")
	f.Add("www.\xff\u202e", "gmai1l.\x00con", "", "gmai1l", "\x00con", "unlisted")
	f.Add(strings.Repeat("a1", 32), "a-b.c", "qq", "a-b", "c", "")
	f.Fuzz(func(t *testing.T, local, host, provider, name, suffix, kind string) {
		suite.Check(t, Score, sdk.Facts{
			"email.local": local, "email.domain": host, "email.provider": provider, "domain.name": name,
			"domain.registrable": host, "domain.suffix": suffix, "domain.suffix_kind": kind,
		})
	})
}

func BenchmarkScore(b *testing.B) { layertest.Open(b, ".").Benchmark(b, Score) }
