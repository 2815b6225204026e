package ranges

import (
	"testing"

	"assay/registry/expect"
)

func TestIn(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		national, prefixes string
		length             int
		want               bool
	}{
		"first": {"12345", "12 99", 5, true}, "last": {"99345", "12 99", 5, true}, "none": {"13345", "12 99", 5, false},
		"longer prefix": {"12", "123 99", 0, false}, "whole": {"12", "12", 2, true},
		"other length": {"123", "12", 2, false}, "any length": {"123", "12", 0, true},
		"common start": {"1294", "123 129", 4, true}, "no prefix": {"12", "", 0, false},
		"no number": {"", "12", 0, false},
	} {
		expect.Equal(t, name, Number{"49", tc.national}.in(tc.prefixes, tc.length), tc.want)
	}
}

// TestFictional has the first and the last range of each country.
func TestFictional(t *testing.T) {
	t.Parallel()
	for number, want := range map[Number]bool{
		{"1", "3125550142"}: true, {"1", "8005550142"}: false, {"1", "8005550199"}: true, {"1", "3125551212"}: false,
		{"33", "199001234"}: true, {"33", "639981234"}: true, {"33", "639971234"}: false,
		{"44", "1134960123"}: true, {"44", "9098790123"}: true, {"44", "7700801123"}: false,
		{"46", "317400612"}: false, {"46", "980319206"}: true, {"49", "3023125123"}: true, {"49", "17604069012"}: true,
		{"49", "1760406901"}: false, {"61", "255501234"}: true, {"61", "491570156"}: true, {"61", "491570155"}: false,
		{"353", "209123456"}: true, {"7", "209123456"}: false, {"", ""}: false,
	} {
		expect.Equal(t, number.Code+" "+number.National, number.IsFictional(), want)
	}
}
