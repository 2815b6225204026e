// Package ranges knows ranges of phone numbers that nobody holds or that serve one purpose, beyond what the host
// recognises.
package ranges

import (
	_ "embed"
	"strconv"
	"strings"
)

// Number holds the parts of a phone number, digits only.
type Number struct {
	Code     string // the country calling code
	National string // the national significant number
}

// Each list has a range a line: the calling code, the first digits of the national number or ".", its length or ".", and
// what there is to say about the range.
var (
	// films are the ranges that regulators reserve for films and examples: ARCEP (numbers for audiovisual works in the
	// national numbering plan), Ofcom ("Telephone numbers for use in TV and radio drama programmes"), PTS (numbers for
	// use in books and films), Bundesnetzagentur (Rufnummern für Mediennutzung), ACMA (numbers for use in radio, books,
	// film and television) and ComReg (Numbering Conditions of Use).
	//
	//go:embed films.txt
	films string

	// calls are reserved for unsolicited commercial calls, with the rule that does so.
	//
	//go:embed calls.txt
	calls string

	// shared are service numbers of businesses whose price a regulator caps near that of an ordinary call.
	//
	//go:embed shared.txt
	shared string

	// before are the forms of numbers before a country changed them, with the year.
	//
	//go:embed before.txt
	before string
)

// IsFictional reports whether a number is in a range that a regulator reserves for films and examples.
func (n Number) IsFictional() bool {
	if n.Code == "1" { // NANPA: 555-0100 to 555-0199 in every area code; in a toll-free code only 555-0199
		const tollFree = " 800 833 844 855 866 877 888 "
		return len(n.National) == 10 && n.National[3:8] == "55501" &&
			(!strings.Contains(tollFree, " "+n.National[:3]+" ") || n.National[8:] == "99")
	}
	_, found := n.find(films)
	return found
}

// Telemarketing returns the rule that reserves a number's range for unsolicited commercial calls, or "".
func (n Number) Telemarketing() string {
	switch n.Code {
	case "262", "590", "594", "596": // overseas, in the plan of France
		n.Code = "33"
	}
	rule, _ := n.find(calls)
	return rule
}

// SharesCost reports whether the caller and the holder share the cost of calls to a number, going by its range.
// Metadata of numbering plans calls some of these ranges premium rate, some companies' numbers, and some shared cost.
func (n Number) SharesCost() bool {
	_, found := n.find(shared)
	return found
}

// RenumberedIn returns the year in which a country changed its numbers, if a number has the form that it had before, or
// "".
func (n Number) RenumberedIn() string {
	year, _ := n.find(before)
	return year
}

// find returns what a list says about the range of a number, and whether it has the range.
func (n Number) find(list string) (says string, found bool) {
	for list != "" {
		var line string
		line, list, _ = strings.Cut(list, "\n")
		code, line, _ := strings.Cut(line, " ")
		if code != n.Code {
			continue
		}
		prefix, line, _ := strings.Cut(line, " ")
		length, says, _ := strings.Cut(line, " ")
		if (prefix == "." || strings.HasPrefix(n.National, prefix)) &&
			(length == "." || length == strconv.Itoa(len(n.National))) {
			return says, true
		}
	}
	return "", false
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
