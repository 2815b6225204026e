package ranges

import (
	"strconv"
	"strings"
	"testing"
)

// TestRangesAreWellFormed catches mistyped ranges: parts that are not digits, or that are as long as the whole number.
func TestRangesAreWellFormed(t *testing.T) {
	t.Parallel()
	for name, list := range map[string]string{"films": films, "calls": calls, "shared": shared, "before": before} {
		for line := range strings.Lines(list) {
			parts := strings.SplitN(strings.TrimSuffix(line, "\n"), " ", 4)
			length, err := 99, error(nil)
			if parts[2] != "." {
				length, err = strconv.Atoi(parts[2])
			}
			if err != nil || strings.Trim(parts[0]+strings.Trim(parts[1], "."), "0123456789") != "" ||
				len(parts[1]) >= length && name != "films" || length != 99 && length > 11 ||
				len(parts) != 3 && name != "calls" && name != "before" {
				t.Errorf("%s: %q is not a valid range", name, line)
			}
		}
	}
}
