package main

// style is a kind of signal.
type style struct {
	points int
	code   string
	text   string // "%" is replaced by evidence
}

// The texts of the layer. The points follow the log-odds in labelled numbers: 8 points are about one unit at the
// default weight.
var (
	voip      = style{24, signalTypeVoip, "Internet telephone number, cheap to get in bulk"}
	pager     = style{15, signalTypePager, "Pager number"}
	voicemail = style{20, signalTypeVoicemail, "Voice mailbox number"}
	tollFree  = style{-14, signalTypeTollFree, "Toll-free number, which only organisations hold"}
	company   = style{-8, signalTypeCompany, "Company access number, which only organisations hold"}
	operators = style{18, signalRangeOperators,
		"Range +33 %, opened since 2000 and mostly used by internet telephone operators"}
	reported = style{0, signalRangeReported, "People reported unwanted calls from numbers that begin with +%"}
	abroad   = style{12, signalCountryDiffers, "Number of %, but the request names %"}
	nearby   = style{5, signalCountryDiffers, "Number of %, but the request names %"}
	callback = style{8, signalCountryCallback,
		"Numbers of % are used for calls that ring once to be called back"}
)
