package bank

import (
	"strings"
	"testing"

	"assay/plugins/internal/wordlist"
	"assay/registry/expect"
)

func TestFind(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		country, code string
		known         bool
		list          List
	}{
		"German bank":           {"DE", "37040044", true, Register},
		"no German bank":        {"DE", "90010517", false, Register},
		"no French bank":        {"FR", "18329", false, Gathered},
		"French overseas":       {"GP", "10107", true, Gathered},
		"British bank":          {"GB", "NWBK", true, Patchy},
		"no list":               {"MT", "MALT", false, None},
		"no country":            {"", "37040044", false, None},
		"no country of letters": {" D", "37040044", false, None},
		"too long":              {"DEU", "37040044", false, None},
		"no code":               {"DE", "", false, Register},
	} {
		if known, list := Find(c.country, c.code); known != c.known || list != c.list {
			t.Errorf("%s: Find(%q, %q) = %v, %d, want %v, %d", name, c.country, c.code, known, list, c.known, c.list)
		}
	}
}

// TestCodesSearchable checks the order and the size of the embedded list, and that it covers every country of lists.
func TestCodesSearchable(t *testing.T) {
	t.Parallel()
	expect.Equal(t, "codes is out of order at", wordlist.Fault(codes), "")
	expect.That(t, len(codes) <= 400<<10, "the bank codes have %d bytes, want at most 400 KiB", len(codes))
	for _, country := range strings.Fields(register + gathered + patchy) {
		expect.That(t, strings.HasPrefix(codes, country) || strings.Contains(codes, "\n"+country) ||
			strings.Contains(codes, " "+country), "codes has no bank of %s", country)
	}
}
