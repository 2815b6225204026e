package check

import "errors"

// Once makes a request safe to repeat. The ledger records one of an account's requests with the same key within 24
// hours, and keeps its answer for the others.
type Once struct {
	Key     string                // chosen by the caller
	Request []byte                // hash of the request; a key belongs to one request
	Render  func([]Answer) []byte // returns the answer to keep
	Answer  []byte                // what Render returned; set before the decisions are recorded, nil if there are none
}

// ErrAnswered means that a request with the same idempotency key may have been recorded before. Nothing was counted.
var ErrAnswered = errors.New("a request with this idempotency key may have been recorded before")

// ErrOtherRequest means that an idempotency key belongs to another request. Nothing was counted.
var ErrOtherRequest = errors.New(
	"the Idempotency-Key belongs to another request of the last 24 hours; use a new key for each request")

// keep renders the answer of a call and adds it to the call's records.
func (o *Once) keep(answers []Answer, records []Record) {
	if o == nil {
		return
	}
	o.Answer = o.Render(answers)
	for i := range records {
		records[i].Once = o
	}
}
