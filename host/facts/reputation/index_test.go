package reputation

import (
	"math/rand/v2"
	"strings"
	"testing"

	"assay/registry/expect"
)

// levenshtein is the textbook algorithm, the reference for pattern.distance.
func levenshtein(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			above := row[j+1]
			if a[i] != b[j] {
				diagonal++
			}
			row[j+1] = min(above+1, row[j]+1, diagonal)
			diagonal = above
		}
	}
	return row[len(b)]
}

func randomForm(r *rand.Rand, length, letters int) form {
	b := make([]byte, length)
	for i := range b {
		b[i] = byte('a' + r.IntN(letters))
	}
	return form(b)
}

// edited changes, inserts or deletes up to n letters.
func edited(r *rand.Rand, f form, n int) form {
	s := string(f)
	for range n {
		at := r.IntN(len(s))
		c := string(rune('a' + r.IntN(26)))
		switch r.IntN(3) {
		case 0:
			s = s[:at] + c + s[at+1:]
		case 1:
			s = s[:at] + c + s[at:]
		default:
			s = s[:at] + s[at+1:]
		}
	}
	return form(s[:min(len(s), maxForm)])
}

func TestDistance(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(1, 2))
	for range 3000 {
		a := randomForm(r, 1+r.IntN(maxForm), 1+r.IntN(4))
		b := randomForm(r, r.IntN(maxForm+1), 1+r.IntN(4))
		if r.IntN(2) == 0 {
			b = edited(r, a, 1+r.IntN(5)%len(a))
		}
		limit := r.IntN(maxForm + 1)
		want := min(levenshtein(string(a), string(b)), limit+1)
		got := newPattern(a).distance([]byte(b), limit)
		expect.Must(t, got == want, "distance of %q and %q, limit %d: %d, want %d", a, b, limit, got, want)
	}
}

// nearest finds the same distance as a scan of all entries.
func TestNearestIsComplete(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(3, 4))
	x := newNameIndex()
	var all []form
	for range 300 {
		f := randomForm(r, minForm+r.IntN(25), 3)
		all = append(all, f)
		x.add(f, string(f), "")
		if r.IntN(3) == 0 { // so that some forms have several near entries
			f = edited(r, f, 1+r.IntN(2))
			all = append(all, f)
			x.add(f, string(f), "")
		}
	}
	hits := 0
	for range 600 {
		q := edited(r, all[r.IntN(len(all))], r.IntN(5))
		want := maxTolerance + 1
		for _, f := range all {
			if d := levenshtein(string(q), string(f)); d == 0 || d <= tolerance(len(f)) {
				want = min(want, d)
			}
		}
		got, ok := x.nearest(q)
		expect.Must(t, ok == (want <= maxTolerance), "nearest(%q) found: %v, want distance %d", q, ok, want)
		if ok {
			hits++
			if d := levenshtein(string(q), x.name(got.entry)); got.distance != want || d != want {
				t.Fatalf("nearest(%q) = %q at distance %d; its true distance is %d, want %d", q,
					x.name(got.entry), got.distance, d, want)
			}
		}
	}
	expect.That(t, hits >= 200, "%d searches had a match, want at least 200", hits)
}

func TestSegments(t *testing.T) {
	t.Parallel()
	for length := minForm; length <= maxForm; length++ {
		cuts := tolerance(length)
		at := 0
		for i := range cuts + 1 {
			start, end := segment(length, cuts, i)
			expect.Must(t, start == at && end > start, "segment %d of %d letters is [%d, %d), want it to start at %d",
				i, length, start, end, at)
			at = end
		}
		expect.Must(t, at == length, "the segments of %d letters end at %d", length, at)
	}
}

func TestFormOf(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		want form
		ok   bool
	}{
		"secure-paypal-login":      {"securepaypallogin", true},
		"parcel-4711":              {"parcel0", true},
		"parcel-47123":             {"parcel0", true},
		"paypa1-login":             {"paypa1login", true},
		"a2b3c4d5e":                {"a2b3c4d5e", true},
		"paypal":                   {"paypal", false},
		"news24":                   {"news0", false},
		"12-34-56-78-90-12-34-56":  {"00000000", false},
		"1a2b3c4":                  {"1a2b3c4", false},
		"jane.doe_smith":           {"janedoesmith", true},
		"":                         {"", false},
		strings.Repeat("long", 20): {form(strings.Repeat("long", 20)[:maxForm]), true},
	} {
		got, ok := formOf(name)
		expect.That(t, got == tt.want && ok == tt.ok, "formOf(%q) = %q, %v, want %q, %v", name, got, ok, tt.want, tt.ok)
	}
	first, _ := formOf("сбербанк-онлайн")
	expect.Equal(t, "a Cyrillic name of 14 letters has a form of", len(first), 14)
	other, _ := formOf("сбербанк-онлаин")
	expect.Equal(t, "one different Cyrillic letter is a distance of", newPattern(first).distance([]byte(other), 5), 1)
}

func FuzzFormOf(f *testing.F) {
	f.Add("secure-paypal-login")
	f.Add("xn--\xff-\u00df12")
	f.Fuzz(func(t *testing.T, name string) {
		got, ok := formOf(name)
		expect.That(t, len(got) <= maxForm && (!ok || len(got) >= minForm), "formOf(%q) = %q, %v", name, got, ok)
		x := newNameIndex()
		if ok {
			x.add(got, name, "")
			n, found := x.nearest(got)
			expect.That(t, found && n.distance == 0 && x.name(n.entry) == name, "nearest does not find %q itself", name)
		}
	})
}
