package ranges

import (
	"strings"
	"testing"
)

// TestRangesAreWellFormed catches mistyped ranges: prefixes that are not digits or are as long as the whole number.
func TestRangesAreWellFormed(t *testing.T) {
	t.Parallel()
	for name, spans := range map[string][]span{
		"FR": dramaFR[:], "GB": dramaGB[:], "SE": dramaSE[:], "DE": dramaDE[:], "AU": dramaAU[:],
		"FR calls": telemarketingFR[:],
	} {
		for _, s := range spans {
			if strings.Trim(s.prefix, "0123456789") != "" || len(s.prefix) >= s.length || s.length > 11 {
				t.Errorf("%s: %+v is not a valid range", name, s)
			}
		}
	}
	for _, tail := range strings.Fields(dramaMobilesAU) {
		if len(tail) != 4 || strings.Trim(tail, "0123456789") != "" {
			t.Errorf("%q is not the end of an Australian mobile number", tail)
		}
	}
}
