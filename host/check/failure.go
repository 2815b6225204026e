package check

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// Failure is why a layer gave no score.
type Failure struct {
	Reason FailureReason
	Err    error
	Output string // what the guest logged or printed before, clipped; for its author, never for customers
}

func (e *Failure) Error() string { return fmt.Sprintf("%s: %v", e.Reason, e.Err) }
func (e *Failure) Unwrap() error { return e.Err }

// FailureReason says in one word why a layer gave no score; it is a metric label.
type FailureReason string

// The ways to lose a layer.
const (
	Timeout     FailureReason = "timeout"     // its budget, or the check's deadline, ran out
	Exhausted   FailureReason = "fuel"        // it burned all the fuel that a call may
	Trap        FailureReason = "trap"        // the guest crashed or returned a failure
	Refused     FailureReason = "refused"     // its answer broke the interface's rules
	Unavailable FailureReason = "unavailable" // it could not be started
)

// redacted is the loss with every fact that the guest may have repeated replaced by its name: logs hold no raw entity.
func (e *Failure) redacted(facts Input) *Failure {
	r := redactor(facts)
	return &Failure{Reason: e.Reason, Err: errors.New(r.Replace(e.Err.Error())), Output: r.Replace(e.Output)}
}

// minRedactedLength is the length of the shortest value that is replaced: shorter ones tell nothing, and would mangle the
// text.
const minRedactedLength = 4

// redactor replaces the values of facts, the longest first, as they are and in lower case.
func redactor(facts Input) *strings.Replacer {
	type pair struct{ value, name string }
	var pairs []pair
	for name, value := range facts.Entity {
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
