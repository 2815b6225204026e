// Package ranges knows ranges of phone numbers that nobody holds or that serve one purpose, beyond what the host
// recognises.
package ranges

import "strings"

// Number holds the parts of a phone number, digits only.
type Number struct {
	Code     string // the country calling code
	National string // the national significant number
}

// span is the range of national significant numbers with a common prefix and length.
type span struct {
	prefix string
	length int // of the whole national significant number, in digits
}

func (s span) holds(national string) bool {
	return len(national) == s.length && strings.HasPrefix(national, s.prefix)
}

// IsFictional reports whether a number is in a range that a regulator reserves for drama and examples.
func (n Number) IsFictional() bool {
	switch n.Code {
	case "1": // NANPA: 555-0100 to 555-0199 in every area code; in a toll-free code only 555-0199
		return len(n.National) == 10 && n.National[3:8] == "55501" &&
			(!isTollFreeNANP(n.National[:3]) || n.National[8:] == "99")
	case "33": // ARCEP, numbers for audiovisual works in the national numbering plan
		return inSpans(n.National, dramaFR[:])
	case "44": // Ofcom, "Telephone numbers for use in TV and radio drama programmes"
		return inSpans(n.National, dramaGB[:])
	case "353": // ComReg, Numbering Conditions of Use, drama numbers
		return (span{"2091", 9}).holds(n.National)
	case "46": // PTS, numbers for use in books and films
		return inSpans(n.National, dramaSE[:])
	case "49": // Bundesnetzagentur, Rufnummern für Mediennutzung ("Drama Numbers")
		return inSpans(n.National, dramaDE[:])
	case "61": // ACMA, numbers for use in radio, books, film and television
		return inSpans(n.National, dramaAU[:]) || len(n.National) == 9 && strings.HasPrefix(n.National, "49157") &&
			strings.Contains(dramaMobilesAU, " "+n.National[5:]+" ")
	}
	return false
}

func isTollFreeNANP(area string) bool {
	return strings.Contains(" 800 833 844 855 866 877 888 ", " "+area+" ")
}

func inSpans(national string, spans []span) bool {
	for _, s := range spans {
		if s.holds(national) {
			return true
		}
	}
	return false
}

var (
	dramaFR = [...]span{{"19900", 9}, {"26191", 9}, {"35301", 9}, {"46571", 9}, {"53649", 9}, {"63998", 9}}
	dramaGB = [...]span{
		{"1134960", 10}, {"1144960", 10}, {"1154960", 10}, {"1164960", 10}, {"1174960", 10}, {"1184960", 10},
		{"1214960", 10}, {"1314960", 10}, {"1414960", 10}, {"1514960", 10}, {"1614960", 10}, {"1914980", 10},
		{"2079460", 10}, {"2896496", 10}, {"2920180", 10}, {"1632960", 10}, {"7700900", 10}, {"8081570", 10},
		{"9098790", 10}, {"3069990", 10},
	}
	dramaSE = [...]span{{"3139006", 9}, {"4062804", 9}, {"8465004", 9}, {"9803192", 9}, {"7017406", 9}}
	dramaDE = [...]span{
		{"3023125", 10}, {"6990009", 10}, {"4066969", 10}, {"2214710", 10}, {"8999998", 10}, {"17139200", 10},
		{"176040690", 11},
	}
	dramaAU = [...]span{
		{"25550", 9}, {"27010", 9}, {"35550", 9}, {"37010", 9}, {"75550", 9}, {"77010", 9}, {"85550", 9}, {"87010", 9},
	}
)

// dramaMobilesAU are the last four digits of the single mobile numbers 0491 57x xxx that ACMA reserves, between spaces.
const dramaMobilesAU = " 0006 0156 0157 0158 0159 0110 0313 0737 1266 1491 1804 2549 2665 2983 3770 3087 4118 4632" +
	" 5254 5789 6398 6801 7426 7644 8957 8148 8888 9212 9760 9455 "

// Telemarketing returns the rule that reserves a number's range for unsolicited commercial calls, or "".
func (n Number) Telemarketing() string {
	switch n.Code {
	case "33", "262", "590", "594", "596":
		if inSpans(n.National, telemarketingFR[:]) {
			return "numbering plan of ARCEP"
		}
	case "34":
		if (span{"400", 9}).holds(n.National) {
			return "Spain's code 400 for commercial calls (Ley 10/2025)"
		}
	case "39":
		if strings.HasPrefix(n.National, "0844") {
			return "AGCOM resolution 156/18/CIR"
		}
	case "55":
		if (span{"303", 10}).holds(n.National) {
			return "Anatel's code 0303"
		}
	case "56":
		if (span{"809", 9}).holds(n.National) || (span{"809", 10}).holds(n.National) {
			return "Subtel's code 809 for unsolicited calls"
		}
	case "91":
		if (span{"140", 10}).holds(n.National) {
			return "TRAI's series 140"
		}
	}
	return ""
}

// telemarketingFR are the ranges of automated calling platforms: those of ARCEP decision 2022-1583, and one of the zone
// of the Indian Ocean and three of the Atlantic zone.
var telemarketingFR = [...]span{
	{"162", 9}, {"163", 9}, {"270", 9}, {"271", 9}, {"377", 9}, {"378", 9}, {"424", 9}, {"425", 9}, {"568", 9},
	{"569", 9}, {"948", 9}, {"949", 9}, {"9475", 9}, {"9476", 9}, {"9477", 9}, {"9478", 9}, {"9479", 9},
	{"2688", 9}, {"5987", 9}, {"5988", 9}, {"5989", 9},
}

// SharesCost reports whether the caller and the holder share the cost of calls to a number, going by its range.
// Metadata of numbering plans calls some of these ranges premium rate, some companies' numbers, and some shared cost.
func (n Number) SharesCost() bool {
	for _, s := range sharedCost {
		if s.code == n.Code && strings.HasPrefix(n.National, s.prefix) {
			return true
		}
	}
	return false
}

// sharedCost are service numbers of businesses whose price a regulator caps near that of an ordinary call.
var sharedCost = [...]struct{ code, prefix string }{
	{"44", "84"}, {"44", "87"}, {"33", "81"}, {"33", "82"}, {"49", "180"}, {"34", "901"}, {"34", "902"}, {"41", "84"},
	{"43", "810"}, {"43", "820"}, {"32", "78"}, {"39", "840"}, {"39", "848"}, {"39", "199"}, {"353", "1850"},
	{"353", "1890"}, {"48", "801"}, {"351", "707"}, {"351", "808"},
}

// RenumberedIn returns the year in which a country changed its numbers, if a number has the form that it had before, or
// "".
func (n Number) RenumberedIn() string {
	for _, r := range renumbered {
		if r.code == n.Code && r.holds(n.National) {
			return r.year
		}
	}
	return ""
}

// renumbered are the forms of numbers before a country changed them.
var renumbered = [...]struct {
	code string
	span
	year string
}{
	{"225", span{"", 8}, "2021"}, {"229", span{"", 8}, "2024"}, {"241", span{"", 7}, "2019"},
	{"237", span{"", 8}, "2014"}, {"506", span{"", 7}, "2008"}, {"505", span{"", 7}, "2009"},
	{"221", span{"", 7}, "2007"}, {"974", span{"", 7}, "2010"}, {"965", span{"", 7}, "2008"},
	{"233", span{"", 8}, "2010"}, {"995", span{"", 8}, "2011"}, {"230", span{"", 7}, "2013"},
	{"212", span{"", 8}, "2009"}, {"20", span{"1", 9}, "2011"}, {"63", span{"2", 8}, "2019"},
	{"84", span{"12", 10}, "2018"}, {"84", span{"16", 10}, "2018"}, {"84", span{"18", 10}, "2018"},
	{"84", span{"199", 10}, "2018"},
}

// GlobalNetwork describes a calling code of no country (ITU-T E.164.1) whose numbers cost more than people expect. It
// returns "" for every other code.
func (n Number) GlobalNetwork() string {
	switch n.Code {
	case "882", "883":
		return "international networks, often used to earn from calls"
	case "881":
		return "a satellite network, at a high price a minute"
	case "870":
		return "the Inmarsat satellite network, at a high price a minute"
	case "878":
		return "personal numbers that forward at a price nobody announces"
	case "808":
		return "the international shared cost service"
	}
	return ""
}
