package main

import (
	"strings"
	"testing"

	"assay/plugins/internal/brand"
)

func TestHasStrayHyphen(t *testing.T) {
	t.Parallel()
	for written, want := range map[struct{ written, name string }]bool{
		{"facebook", "Facebook"}: false, {"you-tube", "YouTube"}: true, {"facebo-ok", "Facebook"}: true,
		{"f-acebook", "Facebook"}: true, {"face--book", "Facebook"}: true, {"t-mobile", "T-Mobile"}: false,
		{"tm-obile", "T-Mobile"}: true, {"la-poste", "La Poste"}: false, {"royal-mail", "Royal Mail"}: false,
	} {
		b := brand.Brand{Key: strings.ReplaceAll(written.written, "-", ""), Name: written.name}
		m := match{Brand: &b, label: written.written, end: len(written.written)}
		if m.hasStrayHyphen() != want {
			t.Errorf("%s for %s: stray hyphen %v, want %v", written.written, written.name, !want, want)
		}
	}
}
