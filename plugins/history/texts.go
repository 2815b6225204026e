package main

// text is a kind of signal. "%" is replaced by evidence.
type text struct{ code, own string }

// The texts of the layer.
var (
	burst    = text{"history:all:burst", "Checked at least % times within an hour, known to customers for % days"}
	busyDay  = text{"history:all:burst", "Checked at least % times within a day, known to customers for % days"}
	repeated = text{"history:own:repeated", "Checked % times by your account within an hour"}
	known    = text{"history:own:known", "Known to your account for % days, seldom checked"}
)
