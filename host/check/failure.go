package check

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"assay/host/entity"
)

// Failure is the error of a layer that returned no score because of its input or its own defects. It never depends on
// the load: a call that fails for another reason, such as time, returns another type of error.
type Failure struct {
	Reason FailureReason
	Err    error
	Output string // the guest's log and printed output, truncated; for the layer's author, never for customers
}

func (e *Failure) Error() string { return fmt.Sprintf("%s: %v", e.Reason, e.Err) }
func (e *Failure) Unwrap() error { return e.Err }

// FailureReason classifies a failure in one word. It is a metric label.
type FailureReason string

// The reasons why a layer returns no score.
const (
	Exhausted FailureReason = "fuel"      // the call burned its budget of fuel
	Trap      FailureReason = "trap"      // the guest crashed or returned a failure
	Refused   FailureReason = "refused"   // the result violates the interface
	Suspended FailureReason = "suspended" // the layer failed repeatedly and is not called for a while
)

// redacted returns a copy of e in which the values of the layer's facts are replaced by the facts' names. A guest may
// repeat its input, and logs must not hold the checked entity.
func (e *Failure) redacted(in Input) *Failure {
	r := redactor(in.Entity)
	return &Failure{Reason: e.Reason, Err: errors.New(r.Replace(e.Err.Error())), Output: r.Replace(e.Output)}
}

// minRedactedLength is the length in bytes of the shortest value that is redacted. Shorter values do not identify a
// person, and replacing them would garble the text.
const minRedactedLength = 4

// redactor replaces the values of facts, the longest first, both as they are and in lower case.
func redactor(facts entity.Facts) *strings.Replacer {
	type pair struct{ value, name string }
	var pairs []pair
	for name, value := range facts {
		if len(value) >= minRedactedLength {
			pairs = append(pairs, pair{value, name}, pair{strings.ToLower(value), name})
		}
	}
	slices.SortFunc(pairs, func(a, b pair) int {
		return cmp.Or(cmp.Compare(len(b.value), len(a.value)), cmp.Compare(a.name, b.name))
	})
	var replace []string
	for _, p := range pairs {
		replace = append(replace, p.value, "["+p.name+"]")
	}
	return strings.NewReplacer(replace...)
}
