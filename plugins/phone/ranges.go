package main

import "strings"

// span is the range of national significant numbers with a common prefix and length.
type span struct {
	prefix string
	length int // of the whole national significant number, in digits
}

func (s span) holds(national string) bool {
	return len(national) == s.length && strings.HasPrefix(national, s.prefix)
}

// isFictional reports whether a number is in a range that a regulator reserves for drama and examples.
func isFictional(n number) bool {
	switch n.code {
	case "1": // NANPA: 555-0100 to 555-0199 in every area code; in a toll-free code only 555-0199
		return len(n.national) == 10 && n.national[3:8] == "55501" &&
			(!isTollFreeNANP(n.national[:3]) || n.national[8:] == "99")
	case "33": // ARCEP, numbers for audiovisual works in the national numbering plan
		return inSpans(n.national, dramaFR[:])
	case "44": // Ofcom, "Telephone numbers for use in TV and radio drama programmes"
		return inSpans(n.national, dramaGB[:])
	case "353": // ComReg, Numbering Conditions of Use, drama numbers
		return (span{"2091", 9}).holds(n.national)
	case "46": // PTS, numbers for use in books and films
		return inSpans(n.national, dramaSE[:])
	case "49": // Bundesnetzagentur, Rufnummern für Mediennutzung ("Drama Numbers")
		return inSpans(n.national, dramaDE[:])
	case "61": // ACMA, numbers for use in radio, books, film and television
		return inSpans(n.national, dramaAU[:]) || len(n.national) == 9 && strings.HasPrefix(n.national, "49157") &&
			strings.Contains(dramaMobilesAU, " "+n.national[5:]+" ")
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

// telemarketingRule returns the rule that reserves a number's range for unsolicited commercial calls, or "".
func telemarketingRule(n number) string {
	switch n.code {
	case "33", "262", "590", "594", "596":
		if inSpans(n.national, telemarketingFR[:]) {
			return "ARCEP decision 2022-1583"
		}
	case "34":
		if (span{"400", 9}).holds(n.national) {
			return "Spain's code 400 for commercial calls (Ley 10/2025)"
		}
	case "39":
		if strings.HasPrefix(n.national, "0844") {
			return "AGCOM resolution 156/18/CIR"
		}
	case "55":
		if (span{"303", 10}).holds(n.national) {
			return "Anatel's code 0303"
		}
	case "56":
		if (span{"809", 9}).holds(n.national) || (span{"809", 10}).holds(n.national) {
			return "Subtel's code 809 for unsolicited calls"
		}
	case "91":
		if (span{"140", 10}).holds(n.national) {
			return "TRAI's series 140"
		}
	}
	return ""
}

// telemarketingFR are the ranges of automated calling platforms since 2023, ARCEP decision 2022-1583.
var telemarketingFR = [...]span{
	{"162", 9}, {"163", 9}, {"270", 9}, {"271", 9}, {"377", 9}, {"378", 9}, {"424", 9}, {"425", 9}, {"568", 9},
	{"569", 9}, {"948", 9}, {"949", 9}, {"9475", 9}, {"9476", 9}, {"9477", 9}, {"9478", 9}, {"9479", 9},
}

// globalNetwork describes a calling code of no country (ITU-T E.164.1) whose numbers cost more than people expect. It
// returns "" for every other code.
func globalNetwork(code string) string {
	switch code {
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
