package main

// text is a kind of signal. "%" is replaced by evidence.
type text struct{ code, own string }

// The texts of the layer.
var (
	burst    = text{signalAllBurst, "Checked at least % times within an hour, known to customers for % days"}
	busyDay  = text{signalAllBurst, "Checked at least % times within a day, known to customers for % days"}
	repeated = text{signalOwnRepeated, "Checked % times by your account within an hour"}
	known    = text{signalOwnKnown, "Known to your account for % days, seldom checked"}
)
