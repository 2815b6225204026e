package main

import (
	"strings"

	"assay/plugins/internal/quote"
	"assay/sdk"
)

// The points of each signal. They add up to the layer's score, 0 to 100; the lineup's weight and bias decide which
// scores reach review or block (TestVerdicts). A number that cannot be assigned, that earns money from its callers, or
// that a regulator reserves for unsolicited calls blocks on its own. Properties that many honest numbers share only add
// to other evidence.
const (
	pointsImpossible      = 88 // no number in that country has that length
	pointsUnassigned      = 72 // less than impossible, because plans grow before the metadata does
	pointsUnreadable      = 72
	pointsUnreadableGuess = 8 // without a country, a local or toll-free number is as likely as a made-up one
	pointsFictional       = 90
	pointsPremium         = 86
	pointsGlobal          = 90 // every number under +979 is premium rate
	pointsTelemarketer    = 74
	pointsPersonal070     = 45 // British 070 numbers look like mobile numbers and cost as much as premium rate
	pointsSharedCost      = 25
	pointsPersonal        = 20
	pointsPager           = 15
	pointsCompany         = -3 // enough to be shown as a reason
	pointsVoicemail       = 20
	pointsVoIP            = 8 // cheap to get in bulk, but also an ordinary home line in many countries
	pointsRepeated        = 45
	pointsFarCountry      = 12
	pointsNearCountry     = 5
	pointsCallback        = 8  // added for countries whose numbers ring once to be called back
	minThreatPoints       = 25 // the fewest points of a signal that names a threat
)

// Score scores a phone number from the phone.* facts and the request's country.
func Score(c *sdk.Check) sdk.Outcome {
	valid, known := c.Fact("phone.valid")
	if !known {
		return sdk.Abstained
	}
	f := findings{check: c, assumed: c.Is("phone.assumed")}
	f.ordinary = f.assumed && c.Is("phone.otherwise_ordinary")
	e164, read := c.Fact("phone.e164")
	n := number{digits: strings.TrimPrefix(e164, "+"), code: c.Get("phone.calling_code"),
		national: c.Get("phone.national")}
	switch {
	case !read:
		scoreUnreadable(&f)
	case isFictional(n):
		f.add(pointsFictional, "phone:range:fictional",
			"the number lies in a range kept for films and examples, so nobody holds it", sdk.FakeIdentity)
	case telemarketingRule(n) != "":
		f.add(pointsTelemarketer, "phone:range:telemarketing",
			"the number lies in a range kept for telemarketing: "+telemarketingRule(n), sdk.Spam)
		scoreCountry(&f)
	default:
		if valid == "no" {
			scoreInvalid(&f)
		}
		scoreRange(&f, n)
	}
	if f.threat != "" {
		c.Threat(f.threat)
	}
	return sdk.Scored
}

// number holds the parts of a phone number, digits only.
type number struct {
	digits   string // E.164 without "+"
	code     string // the country calling code
	national string // the national significant number
}

// findings raises signals and keeps the threat of the signal with the most points.
type findings struct {
	check        *sdk.Check
	assumed      bool // the country is a guess, so signals that depend on it count less
	ordinary     bool // in another country that is as likely, it is an ordinary mobile or fixed line
	threat       sdk.Threat
	threatPoints int
}

func (f *findings) add(points int, code, text string, threat sdk.Threat) {
	switch {
	case f.ordinary:
		points, text = points/4, text+" (in the country that was guessed; elsewhere it is an ordinary number)"
	case f.assumed:
		points, text = points*4/5, text+" (if the guess of its country is right)"
	}
	f.check.Signal(points, code, text)
	if threat != "" && points >= minThreatPoints && points > f.threatPoints {
		f.threatPoints, f.threat = points, threat
	}
}

// scoreUnreadable scores digits that fit none of the numbering plans that the host tried.
func scoreUnreadable(f *findings) {
	if f.assumed {
		f.check.Signal(pointsUnreadableGuess, "phone:number:unreadable",
			"the digits fit no numbering plan that was tried, and no country was given")
		return
	}
	f.add(pointsUnreadable, "phone:number:unreadable",
		"the digits are no phone number: no country's numbering plan fits them", sdk.FakeIdentity)
}

// scoreInvalid scores a number outside every range of its numbering plan.
func scoreInvalid(f *findings) {
	country := quote.Of(f.check.Get("phone.country"))
	if country == "" {
		country = "its country"
	}
	switch f.check.Get("phone.possible") {
	case "too_short":
		f.add(pointsImpossible, "phone:number:length",
			"the number is too short for "+country+"'s numbering plan", sdk.FakeIdentity)
	case "too_long":
		f.add(pointsImpossible, "phone:number:length",
			"the number is too long for "+country+"'s numbering plan", sdk.FakeIdentity)
	case "invalid_length":
		f.add(pointsImpossible, "phone:number:length",
			"no number of "+country+"'s numbering plan has this many digits", sdk.FakeIdentity)
	case "local_only":
		f.add(pointsUnassigned, "phone:number:local",
			"the number lacks its area code, so it rings nowhere", sdk.FakeIdentity)
	default:
		f.add(pointsUnassigned, "phone:number:unassigned",
			"the number lies in no assigned range of "+country+"'s numbering plan", sdk.FakeIdentity)
	}
}

// scoreRange scores the use and the country of the range that contains a number.
func scoreRange(f *findings, n number) {
	if network, points := globalCode(n.code); network != "" {
		f.add(points, "phone:cost:global", "+"+n.code+" is "+network, sdk.TollFraud)
		return
	}
	scoreType(f, n)
	if block, points := reportedBlock(n.digits); points > 0 {
		f.add(points, "phone:range:reported",
			"people reported unwanted calls from numbers that begin with +"+block+", as this one does", sdk.Spam)
	}
	if isRepeated(n.national) {
		f.add(pointsRepeated, "phone:number:repeated", "the number is one digit over and over", sdk.FakeIdentity)
	}
	scoreCountry(f)
}

func scoreType(f *findings, n number) {
	switch f.check.Get("phone.type") {
	case "premium_rate":
		f.add(pointsPremium, "phone:cost:premium",
			"the number is premium rate: calling it costs extra and pays its holder", sdk.TollFraud)
	case "personal":
		if n.code == "44" {
			f.add(pointsPersonal070, "phone:cost:personal",
				"British 070 numbers forward at premium prices and look like mobile numbers", sdk.TollFraud)
			return
		}
		f.add(pointsPersonal, "phone:cost:personal",
			"the number forwards to another one that it hides", sdk.TollFraud)
	case "shared_cost":
		f.add(pointsSharedCost, "phone:cost:shared",
			"the number is shared cost: its holder may earn from calls", sdk.TollFraud)
	case "pager":
		f.add(pointsPager, "phone:type:pager", "the number is a pager's", sdk.FakeIdentity)
	case "voicemail":
		f.add(pointsVoicemail, "phone:type:voicemail", "the number is a voice mailbox's", sdk.FakeIdentity)
	case "voip":
		f.add(pointsVoIP, "phone:type:voip",
			"the number is an internet telephone's, which is cheap to get in bulk", "")
	case "toll_free":
		f.check.Signal(pointsCompany, "phone:type:toll_free",
			"the number is toll-free, so an organisation's and not a person's")
	case "uan":
		f.check.Signal(pointsCompany, "phone:type:company", "the number is a company's access number, not a person's")
	}
}

// isRepeated reports whether the last eight digits of a national number are the same.
func isRepeated(national string) bool {
	const run = 8
	if len(national) < run {
		return false
	}
	tail := national[len(national)-run:]
	return strings.Count(tail, tail[:1]) == run
}

// scoreCountry compares the number's country with the request's. The signal is weak, because people move and travel.
func scoreCountry(f *findings) {
	requested, known := f.check.Fact("entity.country")
	actual, read := f.check.Fact("phone.country")
	if !known || !read || requested == "EU" || requested == actual || actual == "001" || sharePlan(requested, actual) {
		return
	}
	points := pointsFarCountry
	if isEuropean(requested) && isEuropean(actual) {
		points = pointsNearCountry
	}
	f.add(points, "phone:country:differs",
		"the number belongs to "+quote.Of(actual)+", the request names "+quote.Of(requested), "")
	if ringsOnce(actual) {
		f.add(pointsCallback, "phone:country:callback",
			"numbers of "+actual+" are used to ring once and earn from the call back", sdk.TollFraud)
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
