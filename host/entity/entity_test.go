package entity

import (
	"errors"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"assay/registry/expect"
)

type parsed struct {
	raw, value string
	want       Facts
}

func checkFacts(t *testing.T, typ Type, cases map[string]parsed) {
	t.Helper()
	for _, c := range cases {
		checkFactsIn(t, typ, c.raw, "", c.value, c.want)
	}
}

// checkFactsIn compares the normalised value and the facts in want, where "" means that the fact must be absent.
func checkFactsIn(t *testing.T, typ Type, raw, country, value string, want Facts) {
	t.Helper()
	e, err := Parse(typ, raw, country)
	expect.Must(t, err == nil, "Parse(%s, %q, %q): %v", typ, raw, country, err)
	expect.That(t, e.Value == value && e.Facts["entity.value"] == value, "value of %q is %q, fact %q; want %q", raw,
		e.Value, e.Facts["entity.value"], value)
	for name, wanted := range want {
		if got, found := e.Facts[name]; got != wanted || found != (wanted != "") {
			t.Errorf("%s of %q is %q, found %v; want %q", name, raw, got, found, wanted)
		}
	}
}

type refused struct{ raw, country, reason string }

func checkRefused(t *testing.T, typ Type, cases map[string]refused) {
	t.Helper()
	for name, c := range cases {
		e, err := Parse(typ, c.raw, c.country)
		var invalid *InvalidError
		expect.That(t, errors.As(err, &invalid) && invalid.Field == string(typ) &&
			strings.Contains(invalid.Reason, c.reason), "%s: Parse(%s, %.80q) = %q, %v; want an InvalidError with %q",
			name, typ, c.raw, e.Value, err, c.reason)
	}
}

// mostBytes is the greatest length of each fact.
var mostBytes = func() map[string]int {
	most := map[string]int{}
	for _, f := range FactTable() {
		most[f.Name] = f.Bytes
	}
	return most
}()

// checkLengths checks that no fact is longer than sdk/ABI.md says.
func checkLengths(t *testing.T, e Entity) {
	t.Helper()
	for fact, value := range e.Facts {
		expect.That(t, len(value) <= mostBytes[fact], "%s has %d bytes, more than %d: %s", fact, len(value),
			mostBytes[fact], value)
	}
}

// checkParse checks the guarantees of Parse that apply to every input.
func checkParse(t *testing.T, typ Type, raw, country string) {
	t.Helper()
	e, err := Parse(typ, raw, country)
	if err != nil {
		var invalid *InvalidError
		expect.Must(t, errors.As(err, &invalid) && invalid.Reason != "",
			"Parse(%s, %q) returned %v, want an InvalidError", typ, raw, err)
		checkPlain(t, "error", err.Error())
		expect.Must(t, len(err.Error()) <= 300, "the error for %q has %d bytes: %s", raw, len(err.Error()), err)
		return
	}
	checkLengths(t, e)
	again, err := Parse(typ, e.Value, country)
	expect.Must(t, err == nil && again.Value == e.Value, "Parse(%s, %q) = %q, which parses as %q, %v", typ, raw,
		e.Value, again.Value, err)
	expect.Must(t, e.Value != "", "Parse(%s, %q) has no value", typ, raw)
	checkPlain(t, "value", e.Value)
	for name, value := range e.Facts {
		expect.That(t, mostBytes[name] != 0, "fact %s is not in the table", name)
		expect.That(t, value != "", "fact %s of %q is empty", name, raw)
		checkPlain(t, name, value)
	}
	for _, p := range e.Parents() {
		expect.That(t, p.Kind != "" && p.Value != "" && p.Value != e.Value, "%q has the parent %+v", e.Value, p)
	}
}

func checkPlain(t *testing.T, what, s string) {
	t.Helper()
	expect.Must(t, utf8.ValidString(s), "%s %q is not UTF-8", what, s)
	for _, r := range s {
		expect.Must(t, !unicode.IsControl(r) && !unicode.Is(unicode.Bidi_Control, r), "%s %q contains U+%04X", what, s,
			r)
	}
}

func TestInvalidTextOfEveryType(t *testing.T) {
	t.Parallel()
	for _, typ := range Types() {
		checkRefused(t, typ, map[string]refused{
			string(typ) + " empty":        {"", "", "is empty"},
			string(typ) + " blank":        {" \t\r\n ", "", "is empty"},
			string(typ) + " too long":     {strings.Repeat("1", maxRawBytes+1), "", "longer than 1024 bytes"},
			string(typ) + " long blank":   {strings.Repeat(" ", maxRawBytes) + "a.de", "", "longer than 1024 bytes"},
			string(typ) + " not UTF-8":    {"a\xff.de", "", "not valid UTF-8"},
			string(typ) + " replacement":  {"a\ufffd.de", "", "U+FFFD"},
			string(typ) + " NUL":          {"a\x00.de", "", "control character U+0000"},
			string(typ) + " C1":           {"a\u0085.de", "", "control character U+0085"},
			string(typ) + " line mark":    {"a\u2028.de", "", "control character U+2028"},
			string(typ) + " header split": {"a@b.de\r\nBcc: c@d.de", "", "control character U+000D"},
		})
	}
	for _, typ := range []Type{Domain, Email, IBAN} {
		checkRefused(t, typ, map[string]refused{
			string(typ) + " override": {"a\u202egpj.de", "", "text direction control U+202E"},
			string(typ) + " isolate":  {"a\u2066b.de", "", "text direction control U+2066"},
			string(typ) + " mark":     {"a\u200fb.de", "", "text direction control U+200F"},
		})
	}
}

func TestParseOtherErrors(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		typ            Type
		country, field string
	}{
		"unknown type":    {"card", "", "type"},
		"unknown country": {Domain, "QQ", "region.country"},
	} {
		var invalid *InvalidError
		if _, err := Parse(c.typ, "example.com", c.country); !errors.As(err, &invalid) || invalid.Field != c.field {
			t.Errorf("%s: %v, want an InvalidError for %s", name, err, c.field)
		}
	}
}

func TestErrorsTruncateTheInput(t *testing.T) {
	t.Parallel()
	payload := strings.Repeat("A", 200)
	for _, typ := range Types() {
		for _, raw := range []string{payload, payload + "..", "xn--" + payload[:50] + ".com", "<" + payload + ">@x",
			payload + "\u202e"} {
			if _, err := Parse(typ, raw, ""); err != nil && strings.Contains(err.Error(), payload[:65]) {
				t.Errorf("%s: the error repeats more than 64 characters: %v", typ, err)
			}
		}
	}
	got := excerpt("\x1b\u202e" + payload)
	expect.That(t, len(got) <= 2*maxEcho && !strings.ContainsAny(got, "\x1b\u202e"), "excerpt returned %q", got)
}

func TestCountry(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{"": "EU", "eu": "EU", "de": "DE", "Fr": "FR", "ZW": "ZW", "AD": "AD",
		"xk": "XK", "AC": "AC", "uk": "GB"} {
		expect.Equal(t, "Country of "+in, expect.Value(Country(in))(t), want)
	}
	for _, in := range []string{"QQ", "D", "DEU", "D ", " D", "EA", "ſa", "ſ", "ı", "ﬁ", "001", "A\x00", "zz"} {
		got, err := Country(in)
		var invalid *InvalidError
		expect.That(t, errors.As(err, &invalid) && invalid.Field == "region.country",
			"Country(%q) = %q, %v; want an InvalidError for region.country", in, got, err)
	}
}

func TestGuess(t *testing.T) {
	t.Parallel()
	for raw, want := range map[string]Type{
		"jane@example.com": Email, "\"a b\"@example.com": Email,
		"DE89 3704 0044 0532 0130 00": IBAN, "gb29nwbk60161331926819": IBAN, "NO9386011117947": IBAN,
		"DE89-3704-0044-0532-0130-00": IBAN,
		"+49 30 123456":               Phone, "030/123456": Phone, "(201) 555-0123": Phone,
		"+49 30 123456 ext. 7": Phone, "112": Phone,
		"example.com": Domain, "163.com": Domain, "1und1.de": Domain, "https://user@example.com/": Domain,
		"пример.рф": Domain, "": Domain, "ab12cd34ef56.com": Domain,
	} {
		expect.Equal(t, "Guess of "+raw, Guess(raw), want)
	}
}

func TestParents(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		typ          Type
		raw, country string
		want         []Parent
	}{
		"host":          {Domain, "www.example.co.uk", "", []Parent{{"registrable", "example.co.uk"}}},
		"domain itself": {Domain, "example.co.uk", "", nil},
		"public suffix": {Domain, "co.uk", "", nil},
		"email": {Email, "jane@mail.example.com", "",
			[]Parent{{"maildomain", "mail.example.com"}, {"registrable", "example.com"}}},
		"aliased email": {Email, "jane@googlemail.com", "", []Parent{{"maildomain", "gmail.com"},
			{"registrable", "gmail.com"}}},
		"phone":                {Phone, "+33 6 12 34 56 78", "", []Parent{{"range", "3361234"}}},
		"invalid phone":        {Phone, "99999999", "DE", []Parent{{"range", "4999999"}}},
		"unknown calling code": {Phone, "+999 123456", "", nil},
		"IBAN":                 {IBAN, "DE89370400440532013000", "", []Parent{{"bank", "DE37040044"}}},
		"wrong length":         {IBAN, "DE8937040044053201300", "", nil},
	} {
		expect.NoDiff(t, name, c.want, expect.Value(Parse(c.typ, c.raw, c.country))(t).Parents())
	}
}

func BenchmarkParse(b *testing.B) {
	label := strings.Repeat("а", 30)
	for name, c := range map[string]struct {
		typ Type
		raw string
	}{
		"domain":         {Domain, "www.example.co.uk"},
		"domain-idn":     {Domain, "www.xn--pypal-4ve.com"},
		"domain-worst":   {Domain, strings.Repeat(strings.Repeat("аa", 13)+".", 7) + "com"},
		"domain-refused": {Domain, strings.Repeat(label+".", 16) + "com"},
		"email":          {Email, "Jane.Doe+shop@googlemail.com"},
		"phone":          {Phone, "+33 6 12 34 56 78"},
		"phone-guessed":  {Phone, "0912 345 6115"},
		"phone-unknown":  {Phone, "099999999999999"},
		"iban":           {IBAN, "FR14 2004 1010 0505 0001 3M02 606"},
	} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				_, _ = Parse(c.typ, c.raw, "")
			}
		})
	}
}

func TestFactTable(t *testing.T) {
	t.Parallel()
	seen := map[string]bool{}
	for _, f := range FactTable() {
		group, _, found := strings.Cut(f.Name, ".")
		expect.That(t, found && strings.Contains(" entity domain email phone iban ", " "+group+" "),
			"fact %q has an unknown group", f.Name)
		expect.That(t, !seen[f.Name] && f.Format != "" && len(f.Name) <= 64,
			"fact %q is a duplicate, has no format, or has a name of more than 64 bytes", f.Name)
		seen[f.Name] = true
	}
	FactTable()[0].Name = "changed"
	expect.That(t, FactTable()[0].Name != "changed", "callers can change the table")
}

func TestEveryFactIsProduced(t *testing.T) {
	t.Parallel()
	left := map[string]bool{}
	for _, f := range FactTable() {
		left[f.Name] = true
	}
	for typ, raw := range map[Type]string{Domain: "login.example.co.uk", Email: "Jane.Doe+shop@googlemail.com",
		Phone: "+33612345678", IBAN: "FR1420041010050500013M02606"} {
		for name := range expect.Value(Parse(typ, raw, ""))(t).Facts {
			delete(left, name)
		}
	}
	for name := range left {
		t.Errorf("no input produces the fact %s", name)
	}
}
