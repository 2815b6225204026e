package entity

import "strings"

// union is the default region of a request (contract section 2.1).
const union = "EU"

// The officially assigned codes of ISO 3166-1 alpha-2.
const assigned = "" +
	"AD AE AF AG AI AL AM AO AQ AR AS AT AU AW AX AZ BA BB BD BE BF BG BH BI BJ BL BM BN BO BQ BR BS BT BV BW BY BZ " +
	"CA CC CD CF CG CH CI CK CL CM CN CO CR CU CV CW CX CY CZ DE DJ DK DM DO DZ EC EE EG EH ER ES ET FI FJ FK FM FO " +
	"FR GA GB GD GE GF GG GH GI GL GM GN GP GQ GR GS GT GU GW GY HK HM HN HR HT HU ID IE IL IM IN IO IQ IR IS IT JE " +
	"JM JO JP KE KG KH KI KM KN KP KR KW KY KZ LA LB LC LI LK LR LS LT LU LV LY MA MC MD ME MF MG MH MK ML MM MN MO " +
	"MP MQ MR MS MT MU MV MW MX MY MZ NA NC NE NF NG NI NL NO NP NR NU NZ OM PA PE PF PG PH PK PL PM PN PR PS PT PW " +
	"PY QA RE RO RS RU RW SA SB SC SD SE SG SH SI SJ SK SL SM SN SO SR SS ST SV SX SY SZ TC TD TF TG TH TJ TK TL TM " +
	"TN TO TR TT TV TW TZ UA UG UM US UY UZ VA VC VE VG VI VN VU WF WS YE YT ZA ZM ZW"

// Codes outside ISO 3166-1 that numbering plans and banks use: Kosovo, Ascension and Tristan da Cunha.
const unofficial = "XK AC TA"

// Country validates a request's region.country and returns it in upper case. It accepts EU, the ISO 3166-1 alpha-2
// codes, XK, AC and TA, and UK for GB, in any case; "" means EU. The error is an [*InvalidError] for the field
// "region.country".
func Country(s string) (string, error) {
	switch code := strings.ToUpper(s); {
	case s == "":
		return union, nil
	case len(s) == 2 && len(code) == 2 && (code == union || listsCode(assigned, code) || listsCode(unofficial, code)):
		return code, nil
	case code == "UK": // reserved in ISO 3166-1 for the United Kingdom
		return "GB", nil
	}
	return "", &InvalidError{Field: "region.country", Reason: "must be an ISO 3166-1 alpha-2 code such as DE, or EU"}
}

// listsCode reports whether a list of two-letter codes separated by spaces contains code. Both are in upper case.
func listsCode(list, code string) bool {
	for i := 0; i+len(code) <= len(list); i += len(code) + 1 {
		if list[i:i+len(code)] == code {
			return true
		}
	}
	return false
}
