// Code generated from manifest.json by assay plugin build. DO NOT EDIT.

package main

// The signals that the manifest declares.
const (
	signalTypeVoip        = "numbering:type:voip"        // Internet telephone number, cheap to get in bulk
	signalTypePager       = "numbering:type:pager"       // Pager number
	signalTypeVoicemail   = "numbering:type:voicemail"   // Voice mailbox number
	signalTypeTollFree    = "numbering:type:toll_free"   // Toll-free number, which only organisations hold
	signalTypeCompany     = "numbering:type:company"     // Company access number, which only organisations hold
	signalRangeOperators  = "numbering:range:operators"  // French range opened since 2000 and mostly used by internet telephone operators
	signalRangeReported   = "numbering:range:reported"   // People reported unwanted calls from numbers of the same block
	signalCountryDiffers  = "numbering:country:differs"  // Number of another country than the request names
	signalCountryCallback = "numbering:country:callback" // Number of a country used for calls that ring once to be called back
)
