package entity

import (
	"strings"
	"testing"

	"assay/registry/expect"
)

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
