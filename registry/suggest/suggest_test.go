package suggest

import (
	"testing"

	"assay/registry/expect"
)

func TestEditDistance(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		a, b string
		want int
	}{{"", "", 0}, {"a", "", 1}, {"", "ab", 2}, {"kitten", "sitting", 3}, {"abc", "abc", 0}, {"LISTN", "LISTEN", 1}} {
		expect.Equal(t, test.a+" to "+test.b, EditDistance(test.a, test.b), test.want)
	}
	expect.Equal(t, "a known word in the wrong place", Word("review", []string{"review", "bands"}), "")
}
