package main

import (
	"strings"

	"assay/plugins/internal/quote"
	"assay/sdk"
)

// The points of each signal. At the layer's default weight, and a bias of -4, 78 points or more block by themselves and
// 58 or more ask for a review.
const (
	pointsImpossible   = 88 // no number of that plan has that length
	pointsUnassigned   = 72 // plans grow before the metadata does, so a person should look
	pointsUnread       = 72
	pointsUnreadGuess  = 8 // without a country as often a local number or a toll-free one as a made-up one
	pointsFictional    = 90
	pointsPremium      = 86
	pointsGlobal       = 90 // +979, whose every number is premium rate
	pointsTelemarketer = 74
	pointsPersonal070  = 45 // British 070 numbers look mobile and cost like premium rate
	pointsSharedCost   = 25
	pointsPersonal     = 20
	pointsPager        = 15
	pointsCompany      = -3 // enough to be told
	pointsVoicemail    = 20
	pointsVoIP         = 8 // cheap to get in bulk, and an ordinary home line in many countries
	pointsRepeated     = 45
	pointsFarCountry   = 12
	pointsNearCountry  = 5
	pointsCallback     = 8  // besides, for countries whose numbers ring once to be called back
	namesThreat        = 25 // a signal of fewer points names no threat
)

// Score judges one phone number from phone.* and the request's country.
func Score(c *sdk.Check) sdk.Outcome {
	valid, known := c.Fact("phone.valid")
	if !known {
		return sdk.Abstained
	}
	v := verdict{check: c, assumed: c.Is("phone.assumed")}
	v.ordinary = v.assumed && c.Is("phone.otherwise_ordinary")
	e164, read := c.Fact("phone.e164")
	n := number{digits: strings.TrimPrefix(e164, "+"), code: c.Get("phone.calling_code"),
		national: c.Get("phone.national")}
	switch {
	case !read:
		judgeUnread(&v)
	case fictional(n):
		v.add(pointsFictional, "phone:range:fictional",
			"the number lies in a range kept for films and examples, so nobody holds it", sdk.FakeIdentity)
	case telemarketing(n) != "":
		v.add(pointsTelemarketer, "phone:range:telemarketing",
			"the number lies in a range kept for telemarketing: "+telemarketing(n), sdk.Spam)
		judgeCountry(&v)
	default:
		if valid == "no" {
			judgeInvalid(&v)
		}
		judgeRange(&v, n)
	}
	if v.threat != "" {
		c.Threat(v.threat)
	}
	return sdk.Scored
}

// number is a number in its parts, digits only.
type number struct {
	digits   string // E.164 without "+"
	code     string // the country calling code
	national string // the national significant number
}

// verdict raises signals and remembers the threat of the strongest.
type verdict struct {
	check    *sdk.Check
	assumed  bool // the country is a guess, so whatever follows from it counts less
	ordinary bool // and a guess as good makes it somebody's mobile or fixed line
	threat   sdk.Threat
	most     int
}

func (v *verdict) add(points int, code, text string, threat sdk.Threat) {
	switch {
	case v.ordinary:
		points, text = points/4, text+" (in the country that was guessed; elsewhere it is an ordinary number)"
	case v.assumed:
		points, text = points*4/5, text+" (if the guess of its country is right)"
	}
	v.check.Signal(points, code, text)
	if threat != "" && points >= namesThreat && points > v.most {
		v.most, v.threat = points, threat
	}
}

// judgeUnread speaks of digits that are no number of any plan that was tried.
func judgeUnread(v *verdict) {
	if v.assumed {
		v.check.Signal(pointsUnreadGuess, "phone:number:unreadable",
			"the digits fit no numbering plan that was tried, and no country was given")
		return
	}
	v.add(pointsUnread, "phone:number:unreadable",
		"the digits are no phone number: no country's numbering plan fits them", sdk.FakeIdentity)
}

// judgeInvalid speaks of a number outside every range of its plan.
func judgeInvalid(v *verdict) {
	country := quote.Of(v.check.Get("phone.country"))
	if country == "" {
		country = "its country"
	}
	switch v.check.Get("phone.possible") {
	case "too_short":
		v.add(pointsImpossible, "phone:number:length",
			"the number is too short for "+country+"'s numbering plan", sdk.FakeIdentity)
	case "too_long":
		v.add(pointsImpossible, "phone:number:length",
			"the number is too long for "+country+"'s numbering plan", sdk.FakeIdentity)
	case "invalid_length":
		v.add(pointsImpossible, "phone:number:length",
			"no number of "+country+"'s numbering plan has this many digits", sdk.FakeIdentity)
	case "local_only":
		v.add(pointsUnassigned, "phone:number:local",
			"the number lacks its area code, so it rings nowhere", sdk.FakeIdentity)
	default:
		v.add(pointsUnassigned, "phone:number:unassigned",
			"the number lies in no assigned range of "+country+"'s numbering plan", sdk.FakeIdentity)
	}
}

// judgeRange speaks of what the range of a number is for, and of where it belongs.
func judgeRange(v *verdict, n number) {
	if network, points := global(n.code); network != "" {
		v.add(points, "phone:cost:global", "+"+n.code+" is "+network, sdk.TollFraud)
		return
	}
	judgeType(v, n)
	if block, points := reported(n.digits); points > 0 {
		v.add(points, "phone:range:reported",
			"people reported unwanted calls from numbers that begin with +"+block+", as this one does", sdk.Spam)
	}
	if repeated(n.national) {
		v.add(pointsRepeated, "phone:number:repeated", "the number is one digit over and over", sdk.FakeIdentity)
	}
	judgeCountry(v)
}

func judgeType(v *verdict, n number) {
	switch v.check.Get("phone.type") {
	case "premium_rate":
		v.add(pointsPremium, "phone:cost:premium",
			"the number is premium rate: calling it costs extra and pays its holder", sdk.TollFraud)
	case "personal":
		if n.code == "44" {
			v.add(pointsPersonal070, "phone:cost:personal",
				"British 070 numbers forward at premium prices and look like mobile numbers", sdk.TollFraud)
			return
		}
		v.add(pointsPersonal, "phone:cost:personal",
			"the number forwards to another one that it hides", sdk.TollFraud)
	case "shared_cost":
		v.add(pointsSharedCost, "phone:cost:shared",
			"the number is shared cost: its holder may earn from calls", sdk.TollFraud)
	case "pager":
		v.add(pointsPager, "phone:type:pager", "the number is a pager's", sdk.FakeIdentity)
	case "voicemail":
		v.add(pointsVoicemail, "phone:type:voicemail", "the number is a voice mailbox's", sdk.FakeIdentity)
	case "voip":
		v.add(pointsVoIP, "phone:type:voip",
			"the number is an internet telephone's, which is cheap to get in bulk", "")
	case "toll_free":
		v.check.Signal(pointsCompany, "phone:type:toll_free",
			"the number is toll-free, so an organisation's and not a person's")
	case "uan":
		v.check.Signal(pointsCompany, "phone:type:company", "the number is a company's access number, not a person's")
	}
}

// repeated says whether the last eight digits or more of a national number are all the same.
func repeated(national string) bool {
	const run = 8
	if len(national) < run {
		return false
	}
	tail := national[len(national)-run:]
	return strings.Count(tail, tail[:1]) == run
}

// judgeCountry compares the number's country with the request's. People move and travel, so it weighs little.
func judgeCountry(v *verdict) {
	asked, known := v.check.Fact("entity.country")
	held, read := v.check.Fact("phone.country")
	if !known || !read || asked == "EU" || asked == held || held == "001" || samePlan(asked, held) {
		return
	}
	points := pointsFarCountry
	if european(asked) && european(held) {
		points = pointsNearCountry
	}
	v.add(points, "phone:country:differs",
		"the number belongs to "+quote.Of(held)+", the request names "+quote.Of(asked), "")
	if callback(held) {
		v.add(pointsCallback, "phone:country:callback",
			"numbers of "+held+" are used to ring once and earn from the call back", sdk.TollFraud)
	}
}

// callback says whether a country is among those that the FCC warns of for calls that ring once ("One Ring Phone
// Scam").
func callback(country string) bool {
	return len(country) == 2 && strings.Contains(" AG DM DO GD JM MR MS SL TC VG ", " "+country+" ")
}

// european says whether a country is of the EU, the EEA, Switzerland or the United Kingdom, between which people move
// most.
func european(country string) bool {
	return len(country) == 2 && strings.
		Contains(" AT BE BG HR CY CZ DK EE FI FR DE GR HU IE IT LV LT LU MT NL PL PT RO SK SI ES SE"+
			" NO IS LI CH GB ", " "+country+" ")
}

// samePlan says whether two countries share a calling code (ITU-T E.164 annex), so that one's numbers can ring in the
// other.
func samePlan(a, b string) bool {
	for _, shared := range [...]string{
		" US CA AG AI AS BB BM BS DM DO GD GU JM KN KY LC MP MS PR SX TC TT VC VG VI ", " GB GG JE IM ", " IT VA ",
		" RU KZ ",
		" NO SJ ", " FI AX ", " AU CX CC ", " MA EH ", " FR GP BL MF GF MQ RE YT PM ", " CW BQ ", " SH TA ",
	} {
		if strings.Contains(shared, " "+a+" ") && strings.Contains(shared, " "+b+" ") {
			return true
		}
	}
	return false
}
