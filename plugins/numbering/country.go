package main

import (
	"strings"

	"assay/sdk"
)

// scoreCountry compares the number's country with the request's, which is weak evidence, because people move and
// travel.
func (a *answer) scoreCountry() {
	requested, known := a.check.Fact(sdk.EntityCountry)
	actual, read := a.check.Fact(sdk.PhoneCountry)
	if !known || !read || requested == "EU" || requested == actual || actual == "001" || sharePlan(requested, actual) {
		return
	}
	kind := &abroad
	if isEuropean(requested) && isEuropean(actual) {
		kind = &nearby
	}
	a.add(kind, actual, requested)
	if ringsOnce(actual) {
		a.add(&callback, actual)
	}
}

// ringsOnce reports whether the FCC's guide "One Ring Phone Scam" names a country as a source of calls that ring once.
func ringsOnce(country string) bool {
	return len(country) == 2 && strings.Contains(" AG DM DO GD JM MR MS SL TC VG ", " "+country+" ")
}

// isEuropean reports whether a country belongs to the EU or the EEA, or is Switzerland or the United Kingdom. People
// often move between these.
func isEuropean(country string) bool {
	const countries = " AT BE BG HR CY CZ DK EE FI FR DE GR HU IE IT LV LT LU MT NL PL PT RO SK SI ES SE" +
		" NO IS LI CH GB "
	return len(country) == 2 && strings.Contains(countries, " "+country+" ")
}

// sharePlan reports whether two countries share a calling code (ITU-T E.164, annex), so that people in one may hold
// numbers of the other.
func sharePlan(a, b string) bool {
	for _, shared := range [...]string{
		" US CA AG AI AS BB BM BS DM DO GD GU JM KN KY LC MP MS PR SX TC TT VC VG VI ", " GB GG JE IM ", " IT VA ",
		" RU KZ ", " NO SJ ", " FI AX ", " AU CX CC ", " MA EH ", " FR GP BL MF GF MQ RE YT PM ", " CW BQ ", " SH TA ",
	} {
		if strings.Contains(shared, " "+a+" ") && strings.Contains(shared, " "+b+" ") {
			return true
		}
	}
	return false
}
