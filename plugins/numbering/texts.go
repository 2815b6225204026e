package main

// style is a kind of signal.
type style struct {
	points int
	code   string
	text   string // "%" is replaced by evidence
}

// The texts of the layer. The points are of the size of the log-odds in labelled numbers: 8 points are about one unit
// at the default weight.
var (
	voip      = style{24, "numbering:type:voip", "Internet telephone number, cheap to get in bulk"}
	pager     = style{15, "numbering:type:pager", "Pager number"}
	voicemail = style{20, "numbering:type:voicemail", "Voice mailbox number"}
	tollFree  = style{-14, "numbering:type:toll_free", "Toll-free number, which only organisations hold"}
	company   = style{-8, "numbering:type:company", "Company access number, which only organisations hold"}
	operators = style{18, "numbering:range:operators",
		"Range +33 %, opened since 2000 and mostly used by internet telephone operators"}
	reported = style{0, "numbering:range:reported", "People reported unwanted calls from numbers that begin with +%"}
	abroad   = style{12, "numbering:country:differs", "Number of %, but the request names %"}
	nearby   = style{5, "numbering:country:differs", "Number of %, but the request names %"}
	callback = style{8, "numbering:country:callback",
		"Numbers of % are used for calls that ring once to be called back"}
)
