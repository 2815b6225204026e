package override

import (
	"errors"
	"strings"
	"testing"
	"time"

	"assay/host/check"
	"assay/host/entity"
	"assay/registry/expect"
)

func target(t testing.TB, kind Kind, value string) Target {
	t.Helper()
	return expect.Value(ParseTarget(kind, value, ""))(t)
}

func TestParseTarget(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		kind               Kind
		raw, want, refused string
	}{
		"domain":                   {Domain, "Login.Example.COM.", "login.example.com", ""},
		"internationalised domain": {Domain, "https://bücher.example/shop", "xn--bcher-kva.example", ""},
		"phone":                    {Phone, "+49 (0)30 1234567", "+49301234567", ""},
		"iban with spaces":         {IBAN, "de89 3704 0044 0532 0130 00", "DE89370400440532013000", ""},
		"registrable domain":       {Registrable, "Example.co.uk", "example.co.uk", ""},
		"a subdomain": {Registrable, "www.example.co.uk", "",
			"registrable_domain: must be 'example.co.uk', without a subdomain"},
		"a public suffix": {Registrable, "co.uk", "", "registrable_domain: is a public suffix"},
		"range":           {Range, "+49 30 12", "+493012", ""},
		"range with 00":   {Range, "0049-30", "+4930", ""},
		"national range":  {Range, "030 12", "", "number_range: must begin with '+'"},
		"trunk prefix":    {Range, "+49 (0) 30", "", "number_range: contains '(0)'"},
		"short range":     {Range, "+491", "", "number_range: has fewer than 2 digits after the country code"},
		"shortest range":  {Range, "+120", "+120", ""},
		"no country":      {Range, "+0123", "", "number_range: does not begin with a country code"},
		"whole number":    {Range, "+123456789012345", "", "number_range: has more than 14 digits"},
		"bank":            {Bank, "de 3704 0044", "DE37040044", ""},
		"bank of Britain": {Bank, "GBNWBK", "GBNWBK", ""},
		"short bank":      {Bank, "DE3704", "", "bank: must be DE and the 8 characters of the bank code"},
		"unknown country": {Bank, "US123", "", "bank: starts with 'US', which is not a country with IBANs"},
		"invalid email":   {Email, "jane", "", "email: has no '@'"},
	} {
		got, err := ParseTarget(test.kind, test.raw, "")
		var invalid *entity.InvalidError
		switch {
		case test.refused != "" && (!errors.As(err, &invalid) || !strings.HasPrefix(err.Error(), test.refused)):
			t.Errorf("%s: %v, want %q", name, err, test.refused)
		case test.refused == "" && (err != nil || got != Target{test.kind, test.want}):
			t.Errorf("%s: %v, %v, want %q", name, got, err, test.want)
		}
	}
}

func TestMasked(t *testing.T) {
	t.Parallel()
	for raw, test := range map[string]struct {
		kind Kind
		want string
	}{
		"paypa1-login.co.uk":     {Domain, "p...n.co.uk"},
		"shop.ab.example":        {Domain, "s...p.ab.example"},
		"ab.example":             {Registrable, "a....example"},
		"jane.roe@example.com":   {Email, "j...@example.com"},
		"+493012345678":          {Phone, "+49...78"},
		"DE89370400440532013000": {IBAN, "DE...3000"},
		"+493012":                {Range, "+493... (6 digits)"},
		"DE37040044":             {Bank, "DE...44"},
	} {
		got := target(t, test.kind, raw).Masked()
		expect.That(t, got == test.want, "%s is shown as %q, want %q", raw, got, test.want)
	}
}

func TestValidate(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 1, 2, 0, 0, 0, 0, time.UTC)
	valid := Wanted{Action: check.Block, Target: target(t, Domain, "example.com"), Reason: "fraud ring",
		ExpiresAt: now.Add(MaxAge)}
	for name, test := range map[string]struct {
		change  func(*Wanted)
		refused string
	}{
		"valid":           {func(*Wanted) {}, ""},
		"review":          {func(w *Wanted) { w.Action = check.Review }, "action: must be block or allow"},
		"no expiry":       {func(w *Wanted) { w.ExpiresAt = time.Time{} }, "expires_at: is required"},
		"past":            {func(w *Wanted) { w.ExpiresAt = now }, "expires_at: must be in the future"},
		"over a year":     {func(w *Wanted) { w.ExpiresAt = now.Add(MaxAge + 1) }, "expires_at: must be within a year"},
		"no reason":       {func(w *Wanted) { w.Reason = " " }, "reason: is required"},
		"long reason":     {func(w *Wanted) { w.Reason = strings.Repeat("x", 501) }, "reason: is longer than 500"},
		"reason of lines": {func(w *Wanted) { w.Reason = "a\nb" }, "reason: contains control characters"},
		"long author":     {func(w *Wanted) { w.Author = strings.Repeat("x", 101) }, "author: is longer than 100"},
	} {
		w := valid
		test.change(&w)
		err := w.Validate(now)
		expect.That(t, (err == nil) == (test.refused == "") && (err == nil ||
			strings.HasPrefix(err.Error(), test.refused)), "%s: %v, want %q", name, err, test.refused)
	}
}
