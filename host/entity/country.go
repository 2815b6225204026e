package entity

import "strings"

// union is the region of a request that names none (spec section 2.1).
const union = "EU"

// The officially assigned codes of ISO 3166-1 alpha-2.
const assigned = "AD AE AF AG AI AL AM AO AQ AR AS AT AU AW AX AZ BA BB BD BE BF BG BH BI BJ BL BM BN BO BQ BR BS BT BV BW " +
	"BY BZ CA CC CD CF CG CH CI CK CL CM CN CO CR CU CV CW CX CY CZ DE DJ DK DM DO DZ EC EE EG EH ER ES ET FI " +
	"FJ FK FM FO FR GA GB GD GE GF GG GH GI GL GM GN GP GQ GR GS GT GU GW GY HK HM HN HR HT HU ID IE IL IM IN " +
	"IO IQ IR IS IT JE JM JO JP KE KG KH KI KM KN KP KR KW KY KZ LA LB LC LI LK LR LS LT LU LV LY MA MC MD ME " +
	"MF MG MH MK ML MM MN MO MP MQ MR MS MT MU MV MW MX MY MZ NA NC NE NF NG NI NL NO NP NR NU NZ OM PA PE PF " +
	"PG PH PK PL PM PN PR PS PT PW PY QA RE RO RS RU RW SA SB SC SD SE SG SH SI SJ SK SL SM SN SO SR SS ST SV " +
	"SX SY SZ TC TD TF TG TH TJ TK TL TM TN TO TR TT TV TW TZ UA UG UM US UY UZ VA VC VE VG VI VN VU WF WS YE " +
	"YT ZA ZM ZW"

// Codes outside the standard that numbering plans and banks use for places of their own: Kosovo, Ascension, Tristan da
// Cunha.
const unofficial = "XK AC TA"

// Country validates a request's region.country: "" is EU, the default; otherwise an ISO 3166-1 alpha-2 code or EU, in
// any case, given back in upper case. XK, AC and TA count as codes. The error is an [*InvalidError] on
// "region.country".
func Country(s string) (string, error) {
	switch code := strings.ToUpper(s); {
	case s == "":
		return union, nil
	case len(s) == 2 && (code == union || listsCode(assigned, code) || listsCode(unofficial, code)):
		return code, nil
	case len(s) == 2 && code == "UK":
		return "", &InvalidError{Field: "region.country", Reason: "must be GB for the United Kingdom"}
	}
	return "", &InvalidError{Field: "region.country", Reason: "must be an ISO 3166-1 alpha-2 code such as DE, or EU"}
}

// listsCode looks code up in a list of codes set apart by spaces; both codes and list are ASCII capitals.
func listsCode(list, code string) bool {
	for i := 0; i+len(code) <= len(list); i += len(code) + 1 {
		if list[i:i+len(code)] == code {
			return true
		}
	}
	return false
}
