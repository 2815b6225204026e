// Package ranges knows ranges of phone numbers that nobody holds or that serve one purpose, beyond those that the host
// recognises.
package ranges

// Number holds the parts of a phone number, digits only.
type Number struct {
	Code     string // the country calling code
	National string // the national significant number
}

// in reports whether the national number has a length and begins with one of prefixes, which spaces separate. A length
// of 0 means any length. It reads the prefixes in place, because each guest would build a list when it starts.
func (n Number) in(prefixes string, length int) bool {
	if length != 0 && len(n.National) != length {
		return false
	}
	for at := 0; at < len(prefixes); at++ {
		same := 0
		for at < len(prefixes) && same < len(n.National) && prefixes[at] == n.National[same] {
			at, same = at+1, same+1
		}
		if at == len(prefixes) || prefixes[at] == ' ' {
			return same > 0
		}
		for at < len(prefixes) && prefixes[at] != ' ' {
			at++
		}
	}
	return false
}

// IsFictional reports whether a number is in a range that a regulator reserves for films and examples.
func (n Number) IsFictional() bool {
	switch n.Code {
	case "1": // NANPA: 555-0100 to 555-0199 in every area code; in a toll-free code only 555-0199
		return len(n.National) == 10 && n.National[3:8] == "55501" &&
			(!n.in("800 833 844 855 866 877 888", 10) || n.National[8:] == "99")
	case "33": // ARCEP, numbers for audiovisual works in the national numbering plan
		return n.in("19900 26191 35301 46571 53649 63998", 9)
	case "44": // Ofcom, "Telephone numbers for use in TV and radio drama programmes"
		return n.in("1134960 1144960 1154960 1164960 1174960 1184960 1214960 1314960 1414960 1514960 1614960 1632960 "+
			"1914980 2079460 2896496 2920180 3069990 7700900 8081570 9098790", 10)
	case "353": // ComReg, Numbering Conditions of Use, drama numbers
		return n.in("2091", 9)
	case "46": // PTS, numbers for use in books and films
		return n.in("3139006 4062804 7017406 8465004 9803192", 9)
	case "49": // Bundesnetzagentur, Rufnummern für Mediennutzung ("Drama Numbers")
		return n.in("17139200 2214710 3023125 4066969 6990009 8999998", 10) || n.in("176040690", 11)
	case "61": // ACMA, numbers for use in radio, books, film and television, and single mobile numbers
		const mobiles = "0006 0110 0156 0157 0158 0159 0313 0737 1266 1491 1804 2549 2665 2983 3087 3770 4118 4632" +
			" 5254 5789 6398 6801 7426 7644 8148 8888 8957 9212 9455 9760"
		return n.in("25550 27010 35550 37010 75550 77010 85550 87010", 9) ||
			n.in("49157", 9) && Number{"", n.National[5:]}.in(mobiles, 4)
	}
	return false
}

// Telemarketing returns the rule that reserves a number's range for unsolicited commercial calls, or "".
func (n Number) Telemarketing() string {
	switch {
	case n.in(platformsFR, 9) && (n.Code == "33" || Number{"", n.Code}.in("262 590 594 596", 3)): // and overseas
		return "numbering plan of ARCEP"
	case n.Code == "34" && n.in("400", 9):
		return "Spain's code 400 for commercial calls (Ley 10/2025)"
	case n.Code == "39" && n.in("0844", 0):
		return "AGCOM resolution 156/18/CIR"
	case n.Code == "55" && n.in("303", 10):
		return "Anatel's code 0303"
	case n.Code == "56" && (n.in("809", 9) || n.in("809", 10)):
		return "Subtel's code 809 for unsolicited calls"
	case n.Code == "91" && n.in("140", 10):
		return "TRAI's series 140"
	}
	return ""
}

// platformsFR are the ranges of automated calling platforms: those of ARCEP decision 2022-1583, and one of the zone of
// the Indian Ocean and three of the Atlantic zone.
const platformsFR = "162 163 270 271 377 378 424 425 568 569 948 949 9475 9476 9477 9478 9479 2688 5987 5988 5989"

// SharesCost reports whether the caller and the holder share the cost of calls to a number, going by its range: service
// numbers of businesses whose price a regulator caps near that of an ordinary call. Metadata of numbering plans calls
// some of these ranges premium rate, some companies' numbers, and some shared cost.
func (n Number) SharesCost() bool {
	return Number{"", n.Code + n.National}.in("3278 3381 3382 34901 34902 351707 351808 3531850 3531890 39199 39840"+
		" 39848 4184 43810 43820 4484 4487 48801 49180 841900", 0)
}

// IsNew reports whether a number is in a range that was assigned too recently for metadata of numbering plans: area
// codes of North America (NANPA, 2023 to 2026), or Japan's 060 for mobiles (MIC, 20 December 2024).
func (n Number) IsNew() bool {
	return n.Code == "1" && n.in("357 436 457 471 621 624 679 729 837 861 924", 10) && n.National[3] >= '2' ||
		n.Code == "81" && n.in("60", 10) && n.National[2] != '0'
}

// RenumberedIn returns the year in which a country changed its numbers (ITU Operational Bulletin), if a number has the
// form that it had before, or "".
func (n Number) RenumberedIn() string {
	for _, form := range [...]struct {
		code, prefixes string
		length         int
		year           string
	}{
		{"20", "1", 9, "2011"}, {"56", "2 3 4 5 6 7", 8, "2013"}, {"57", "1 2 4 5 6 7 8", 8, "2021"},
		{"63", "2", 8, "2019"}, {"84", "4", 9, "2017"}, {"84", "12 16 18 199", 10, "2018"}, {"212", "", 8, "2009"},
		{"221", "", 7, "2007"}, {"225", "", 8, "2021"}, {"229", "", 8, "2024"}, {"230", "", 7, "2013"},
		{"233", "", 8, "2010"}, {"234", "1 2 3 4 5 6 7 8 9", 8, "2024"}, {"237", "", 8, "2014"}, {"241", "", 7, "2019"},
		{"248", "", 6, "2011"}, {"371", "", 7, "2008"}, {"504", "", 7, "2010"}, {"505", "", 7, "2009"},
		{"506", "", 7, "2008"}, {"593", "8 9", 8, "2012"}, {"965", "", 7, "2008"}, {"974", "", 7, "2010"},
		{"995", "", 8, "2011"},
	} {
		if form.code == n.Code && len(n.National) == form.length && (form.prefixes == "" || n.in(form.prefixes, 0)) {
			return form.year
		}
	}
	return ""
}

// GlobalNetwork describes a calling code that belongs to no country (ITU-T E.164.1) and whose numbers cost more than
// people expect. It returns "" for every other code.
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
