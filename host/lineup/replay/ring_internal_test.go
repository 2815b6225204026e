package replay

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"assay/host/check"
	"assay/host/entity"
	"assay/registry/expect"
)

var start = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

// clocked returns a ring with its own time.
func clocked(checks int, maxBytes int64) (r *Ring, now *time.Time) {
	r, now = NewRing(checks, maxBytes), new(start)
	r.now = func() time.Time { return *now }
	return r, now
}

// recorded returns a recorded check of a subject.
func recorded(subject byte, at time.Time) check.Record {
	value := fmt.Sprintf("%c.example.com", subject)
	return check.Record{
		Entity: entity.Entity{Type: entity.Domain, Value: value, Facts: entity.Facts{"entity.country": "DE"}},
		Caller: check.Caller{Account: "acct_1"}, LookedUp: entity.Facts{"dns.status": "ok"}, Pseudonym: named(subject),
		Decision: &check.Decision{Type: entity.Domain, Query: value, At: at, Terms: &check.Terms{},
			Fused: check.Fused{Verdict: check.Allow}},
	}
}

// recordedBytes is what such a check's content of 43 bytes takes.
const recordedBytes = 48

func named(subject byte) []byte { return []byte(strings.Repeat(string(subject), pseudonymBytes)) }

// remember remembers a check of each subject, decided at the ring's time.
func (r *Ring) remember(subjects string) {
	for _, s := range []byte(subjects) {
		r.Remember([]check.Record{recorded(s, r.now())})
	}
}

// subjects returns the subjects in a ring, from the newest to the oldest.
func (r *Ring) subjects() (all string) {
	r.newest(func(c remembered) bool {
		all += string(c.subject[:1])
		return true
	})
	return all
}

func TestRingIsBounded(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		checks   int
		maxBytes int64
		want     string
	}{
		"by checks":            {3, 1 << 20, "gfe"},
		"by bytes":             {100, 120, "gf"}, // less than three times recordedBytes
		"by less than a check": {100, 10, ""},
	} {
		r, _ := clocked(c.checks, c.maxBytes)
		r.remember("abcdefg")
		expect.Equal(t, name+": the ring", r.subjects(), c.want)
		checks, bytes := r.Size()
		expect.That(t, checks == len(c.want) && bytes <= c.maxBytes && (bytes == 0) == (c.want == ""),
			"%s: %d checks with %d bytes", name, checks, bytes)
	}
}

// TestErasure erases subjects and loses notifications, with checks before, in progress and after. Upper case stands for
// a check that is remembered late: it was decided at the start.
func TestErasure(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		steps string // a letter: a check of that subject; -x: erase x; !: a notification may be lost; +: time passes
		want  string
	}{
		"nothing erased":                      {"abab", "baba"},
		"one subject":                         {"abab-a", "bb"},
		"a subject that is not there":         {"ab-c", "ba"},
		"the newest":                          {"abc-c", "ba"},
		"twice":                               {"abca-a-a", "cb"},
		"checked again at once":               {"ab-aa", "b"},
		"checked again much later":            {"ab-a+a", "ab"},
		"another one afterwards":              {"ab-ac", "cb"},
		"recorded before, remembered after":   {"b-aA", "b"},
		"a lost notification":                 {"abc!", ""},
		"a check in progress when it is lost": {"ab!C", ""},
		"checks after a loss":                 {"ab!+cd", "dc"},
		"an erasure before a loss":            {"ab-a!+ab", "ba"},
		"a full ring":                         {"abcdefghij-d", "jihgfec"},
		"a full ring, and more":               {"abcdefghij-dklm", "mlkjihgf"},
	} {
		r, now := clocked(8, 1<<20)
		for i := 0; i < len(c.steps); i++ {
			switch s := c.steps[i]; {
			case s == '-':
				i++
				r.Erase(named(c.steps[i]))
			case s == '!':
				r.Erase(nil)
			case s == '+':
				*now = now.Add(erasedFor + time.Second)
				expect.NoError(t, r.Trim(t.Context()))
			case s >= 'A' && s <= 'Z':
				r.Remember([]check.Record{recorded(s-'A'+'a', start)})
			default:
				r.remember(string(s))
			}
		}
		expect.Equal(t, name, r.subjects(), c.want)
		if checks, bytes := r.Size(); checks != len(c.want) || bytes != int64(recordedBytes*len(c.want)) {
			t.Errorf("%s: %d checks with %d bytes, want %d of %d each", name, checks, bytes, len(c.want), recordedBytes)
		}
	}
}

// The memory of the oldest check of a full ring is used again, and nothing of that check stays in it.
func TestContentIsReplaced(t *testing.T) {
	t.Parallel()
	r, now := clocked(1, 1<<20)
	long := recorded('a', *now)
	long.LookedUp["graph.secret"] = strings.Repeat("private ", 100)
	for range 3 {
		r.Remember([]check.Record{long})
		_, before := r.Size()
		r.remember("b")
		content := r.checks[0].content
		if whole := string(content[:cap(content)]); strings.Contains(whole, "private") || r.subjects() != "b" {
			t.Errorf("the ring has %q, its memory %q", r.subjects(), whole)
		}
		if checks, bytes := r.Size(); checks != 1 || bytes != before || bytes != int64(cap(content)) {
			t.Errorf("%d checks with %d bytes, before %d", checks, bytes, before)
		}
	}
	short := r.checks[0].content
	short = short[:0:len(short)]
	r.checks[0].content = append(short, r.checks[0].content...)
	r.size = int64(cap(short))
	r.Remember([]check.Record{long})
	expect.That(t, strings.Trim(string(short[:cap(short)]), "\x00") == "", "the content that was too short is still %q",
		short[:cap(short)])
	r.Erase(named('a'))
	checks, bytes := r.Size()
	expect.That(t, checks == 0 && bytes == 0, "%d checks with %d bytes after the erasure", checks, bytes)
}

// Erased content is overwritten in memory too.
func TestForgottenContentIsOverwritten(t *testing.T) {
	t.Parallel()
	for name, forget := range map[string]func(*Ring){
		"erased":  func(r *Ring) { r.Erase(named('a')) },
		"cleared": func(r *Ring) { r.Clear() },
		"evicted": func(r *Ring) { r.remember("bc") },
	} {
		r, _ := clocked(2, 1<<20)
		r.remember("a")
		content := r.checks[0].content
		expect.Must(t, strings.Contains(string(content), "a.example.com"), "the content is %q", content)
		forget(r)
		expect.That(t, !strings.Contains(string(content), "a.example.com") && (name == "evicted" ||
			strings.Trim(string(content), "\x00") == ""), "%s: the content is still %q", name, content)
	}
}

func TestOldChecksAreForgotten(t *testing.T) {
	t.Parallel()
	r, now := clocked(8, 1<<20)
	r.remember("ab")
	*now = now.Add(maxAge)
	r.remember("c")
	*now = now.Add(time.Minute)
	err := r.Trim(t.Context())
	expect.That(t, err == nil && r.subjects() == "c", "the ring has %q: %v", r.subjects(), err)
}

// More erasures than a ring can remember make it forget everything.
func TestFloodOfErasures(t *testing.T) {
	t.Parallel()
	r, now := clocked(8, 1<<20)
	r.remember("ab")
	for i := range maxErased + 1 {
		r.Erase(fmt.Appendf(nil, "%-*d", pseudonymBytes, i))
	}
	r.Remember([]check.Record{recorded('c', start)})
	expect.Equal(t, "the ring", r.subjects(), "")
	*now = now.Add(time.Second)
	r.remember("d")
	expect.Equal(t, "the ring", r.subjects(), "d")
}

// A check without a pseudonym could not be erased, and one that an override decided says nothing about lineups.
func TestSomeChecksAreNotRemembered(t *testing.T) {
	t.Parallel()
	r, _ := clocked(8, 1<<20)
	anonymous, overridden, unknown := recorded('a', start), recorded('b', start), recorded('c', start)
	anonymous.Pseudonym = nil
	overridden.Decision.Override = &check.Override{}
	unknown.Decision.Terms = nil
	r.Remember([]check.Record{anonymous, overridden, unknown, recorded('d', start)})
	expect.Equal(t, "the ring", r.subjects(), "d")
}

// Checks, erasures and replays at the same time; the race detector watches.
func TestRingIsSafeForConcurrentUse(t *testing.T) {
	t.Parallel()
	r, _ := clocked(64, 4<<10)
	var all sync.WaitGroup
	for i := range 4 {
		all.Go(func() {
			for range 200 {
				r.remember("abcdefgh"[2*i : 2*i+2])
			}
		})
		all.Go(func() {
			for range 50 {
				r.Erase(named("abcdefgh"[i]))
				r.newest(func(c remembered) bool {
					_, err := decode(c.content)
					expect.That(t, err == nil, "%v", err)
					return true
				})
			}
			r.Clear()
		})
	}
	all.Wait()
	checks, bytes := r.Size()
	expect.That(t, checks <= 64 && bytes <= 4<<10, "%d checks with %d bytes", checks, bytes)
}

func TestContentIsKept(t *testing.T) {
	t.Parallel()
	record := recorded('a', start)
	d := record.Decision
	d.Query, d.Score, d.Verdict = "A.Example.com", 71, check.Block
	d.Layers = []check.Outcome{
		{Score: -60, Signals: []check.Signal{{Points: -60, Code: "a:b:c", Text: "not kept"}}},
		{Abstained: true}, {Failure: check.Refused}, {Failure: check.Exhausted},
		{Score: 100, Signals: []check.Signal{{Points: 100, Code: "d:e:f"}, {Points: -1, Code: ""}}},
	}
	got := expect.Value(decode(encode(nil, &record)))(t)
	want := content{Type: entity.Domain, Query: "A.Example.com", Country: "DE", Score: 71,
		Verdict: check.Block, LookedUp: record.LookedUp, Layers: []check.Outcome{
			{Score: -60, Signals: []check.Signal{{Points: -60, Code: "a:b:c"}}},
			{Abstained: true}, {Failure: check.Refused}, {Failure: check.Exhausted},
			{Score: 100, Signals: []check.Signal{{Points: 100, Code: "d:e:f"}, {Points: -1, Code: ""}}},
		}}
	expect.NoDiff(t, "result", want, got)
}

// FuzzDecode reads damaged contents: decode reports an error instead of a panic.
func FuzzDecode(f *testing.F) {
	record := recorded('a', start)
	record.Decision.Layers = []check.Outcome{{Score: 3, Signals: []check.Signal{{Points: 3, Code: "a:b:c"}}}}
	f.Add(encode(nil, &record))
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, b []byte) {
		c, err := decode(b)
		expect.That(t, err != nil || c.Type != "", "%q: no type", b)
	})
}

// BenchmarkRemember measures what remembering adds to a check with the facts of all sources and eleven layers.
func BenchmarkRemember(b *testing.B) {
	record := recorded('a', start)
	for i := range 30 {
		record.LookedUp[fmt.Sprintf("group.some_fact_%d", i)] = "some value"
	}
	for i := range 11 {
		o := check.Outcome{Score: i}
		if i%2 == 0 {
			o.Signals = []check.Signal{{Points: i, Code: "layer:group:detail"}}
		}
		record.Decision.Layers = append(record.Decision.Layers, o)
	}
	records := []check.Record{record}
	r := NewRing(DefaultChecks, DefaultBytes)
	b.ReportAllocs()
	for b.Loop() {
		r.Remember(records)
	}
	checks, bytes := r.Size()
	b.ReportMetric(float64(bytes)/float64(checks), "bytes/check")
}
