package main

import (
	"maps"
	"strings"
	"testing"

	"assay/host/check"
	"assay/plugins/internal/mail"
	"assay/plugins/internal/wordlist"
	"assay/registry/expect"
	"assay/registry/layertest"
	"assay/sdk"
)

func TestCases(t *testing.T) {
	t.Parallel()
	layertest.Open(t, ".").RunCases(t, Score)
}

// TestVerdicts checks the verdicts that the points are meant to cause when every other layer scores 0.
func TestVerdicts(t *testing.T) {
	t.Parallel()
	suite := layertest.Open(t, ".")
	suite.CheckVerdict(t, check.Block, blocks)
	for _, points := range []int{strong, adds} {
		if suite.Verdict(t, points) == check.Allow {
			t.Errorf("%d points lead to no review", points)
		}
	}
	if suite.Verdict(t, hints) == check.Block {
		t.Errorf("%d points alone lead to a block", hints)
	}
}

// The layer learned from these rows; the trainer measures it on rows that it held out.
func TestLabelled(t *testing.T) {
	t.Parallel()
	layertest.Open(t, ".").Labelled(t, Score, layertest.Limits{Rows: 2000, Points: 22, Found: 0.1})
}

func TestAbstainsWithoutMailDomain(t *testing.T) {
	t.Parallel()
	if got := sdk.Run(Score, sdk.Facts{"entity.type": "email",
		"email.local": "paypal-support"}); got.Outcome != sdk.Abstained {
		t.Errorf("outcome %d without a mail domain, want abstained", got.Outcome)
	}
}

// TestListsSearchable checks that binary search finds every word of the lists.
func TestListsSearchable(t *testing.T) {
	t.Parallel()
	for name, list := range map[string]string{
		"disposables": disposables, "moneyWords": moneyWords, "deskWords": deskWords,
		"fillers": fillers, "families": families, "realDomains": realDomains, "wrongSuffixes": wrongSuffixes,
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
		if !mayStartWord(word) {
			t.Errorf("secondLetters rules out %q", word)
		}
		if w := segment(word); !w.whole {
			t.Errorf("segment does not find %q", word)
		}
	}
	expect.Equal(t, "the longest word", longest, maxWord)
}

func TestFindTypo(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		name, suffix string
		unlisted     bool
		want, how    string
	}{
		"swapped":                      {"gmial", "com", false, "gmail.com", "letters ai swapped"},
		"missing":                      {"gmal", "com", false, "gmail.com", "i is missing"},
		"extra":                        {"gmaail", "com", false, "gmail.com", "extra a"},
		"replaced":                     {"gmaol", "com", false, "gmail.com", "o for i"},
		"suffix":                       {"gmail", "cm", false, "gmail.com", ".cm in place of .com"},
		"unlisted suffix":              {"gmail", "cmm", true, "gmail.com", ".cmm in place of .com"},
		"right":                        {"gmail", "com", false, "", ""},
		"regional suffix":              {"yahoo", "fr", false, "", ""},
		"two edits":                    {"gmiall", "com", false, "", ""},
		"other first letter":           {"zmail", "com", false, "", ""},
		"far first letter":             {"motmail", "com", false, "", ""},
		"tail of the name":             {"otmail", "com", false, "", ""},
		"short name under another":     {"gmial", "de", false, "", ""},
		"long name under another":      {"hotmial", "de", false, "hotmail.com", "letters ai swapped"},
		"digit replaces":               {"l1ve", "com", false, "live.com", "the digit 1"},
		"letter replaces in four":      {"love", "com", false, "", ""},
		"digit inserted in four":       {"li7ve", "com", false, "live.com", "the digit 7"},
		"digit after four":             {"live5", "com", false, "", ""},
		"national under its suffix":    {"seznma", "cz", false, "seznam.cz", "letters am swapped"},
		"look-alikes of a real domain": {"ernail", "com", false, "", ""},
	} {
		if got := findTypo(tc.name, tc.suffix, tc.unlisted); got.meant != tc.want || got.difference != tc.how {
			t.Errorf("%s: findTypo(%s.%s) = %q, %q, want %q, %q", name, tc.name, tc.suffix, got.meant, got.difference,
				tc.want, tc.how)
		}
	}
}

// TestOnOneList checks that no disposable service is a provider or a relay too.
func TestOnOneList(t *testing.T) {
	t.Parallel()
	for _, host := range strings.Fields(disposables + families) {
		if mail.Provider(host) != "" || mail.Relay(host) != "" {
			t.Errorf("%s is on two lists", host)
		}
	}
}

func TestRunsAlongKeyboard(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]bool{
		"asdkjhqwe8273": true, "qwerty": true, "qwert1": true, "asdfg": true, "lkjhgf": true, "zxcvbnm99": true,
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
		facts := sdk.Facts{
			"email.local": local, "email.domain": host, "email.provider": provider, "domain.name": name,
			"domain.registrable": host, "domain.suffix": suffix, "domain.suffix_kind": kind,
		}
		maps.DeleteFunc(facts, func(_, value string) bool { return value == "" })
		suite.CheckResult(t, sdk.Run(Score, facts))
	})
}

func BenchmarkScore(b *testing.B) { layertest.Open(b, ".").Benchmark(b, Score) }
