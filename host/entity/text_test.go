package entity_test

import (
	"strings"
	"testing"

	"assay/host/entity"
	"assay/registry/expect"
)

func TestValidateText(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		text  string
		lines bool
		want  string // of the reason; "": it is valid
	}{
		"ordinary":               {"Chargebacks, März", false, ""},
		"joiners":                {"می\u200cخواهم 👩\u200d👧", false, ""},
		"a blank of no break":    {"100\u00a0EUR", false, ""},
		"several lines":          {"a\r\n\tb", true, ""},
		"lines in a name":        {"a\nb", false, "control"},
		"right to left override": {"evil\u202egpj", true, "direction"},
		"isolate":                {"a\u2066b", false, "direction"},
		"a C1 control":           {"a\u009b31m", true, "control"},
		"an escape":              {"a\x1b[31m", true, "control"},
		"a line separator":       {"a\u2028b", true, "control"},
		"not UTF-8":              {"a\xff", true, "UTF-8"},
		"blank":                  {" \t", true, "is required"},
		"too long":               {strings.Repeat("é", 51), true, "longer than 100 bytes"},
	} {
		expect.Outcome(t, name, entity.ValidateText("note", test.text, 100, test.lines), test.want)
	}
}
