package check

// Failure is the error of a layer that returned no score because of its input or its own defects. It never depends on
// the load: a call that fails for another reason, such as time, returns another type of error.
//
// A layer can hide the checked entity in any text. So logs show only the reason, the rule and the counts of Output; Err
// and the text are only shown to a layer's author who runs it.
type Failure struct {
	Reason FailureReason
	Rule   string // what the layer did, in the host's words
	Err    error  // the details, which may repeat the guest's text
	Output Output
}

// Output is what a guest logged and printed during a call that failed.
type Output struct {
	Text  string // truncated
	Lines int    // in Text
	Bytes int    // in Text
	Level int    // the highest level of a line: -4 debug, 0 information, 4 warning or 8 error
}

// Error returns no text from the guest.
func (e *Failure) Error() string { return string(e.Reason) + ": " + e.Rule }
func (e *Failure) Unwrap() error { return e.Err }

// FailureReason classifies a failure in one word. It is a metric label.
type FailureReason string

// The reasons why a layer returns no score.
const (
	Exhausted FailureReason = "fuel"    // the call burned its budget of fuel
	Trap      FailureReason = "trap"    // the guest crashed or returned a failure
	Refused   FailureReason = "refused" // the result violates the interface
)
