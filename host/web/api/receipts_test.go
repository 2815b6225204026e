package api

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"assay/host/check"
	"assay/host/customer/feedback"
	"assay/registry/expect"
)

// receipts issues receipts of every check but unknownRef. They have proofs unless the check is largeRef.
type receipts struct{}

func (receipts) Receipt(_ context.Context, c check.Caller, ref string, prove bool) (json.RawMessage, bool, error) {
	const start = `{"format":"assay-receipt-1","record":{"nonce":"00","kind":"check","ref":"`
	switch {
	case c.Account == failKey:
		return nil, false, errors.New(secret)
	case ref == unknownRef:
		return nil, false, feedback.ErrUnknownCheck
	case prove && ref != largeRef:
		const end = `"},"promise":"p","proof":{"index":6,"hashes":"","checkpoint":"c"}}`
		return json.RawMessage(start + ref + end), true, nil
	}
	return json.RawMessage(start + ref + `"},"promise":"p","proof":null}`), false, nil
}

// A result has its receipt on request, and the rest of the result stays the same.
func TestReceiptInResult(t *testing.T) {
	t.Parallel()
	s := start(t, Config{})
	auth := []string{"Authorization", "Bearer " + goodKey}
	plain := s.send(t, "POST", "/api/check", `{"domain":"example.com","receipt":false}`, auth...)
	expect.Must(t, plain.status == 200 && !strings.Contains(plain.body, "receipt"), "%d %s", plain.status, plain.body)
	with := s.send(t, "POST", "/api/check", `{"domain":"example.com","receipt":true}`, auth...)
	var result struct {
		Ref     string
		Receipt struct{ Record struct{ Ref string } }
	}
	same, _, _ := strings.Cut(plain.body, `"ref"`)
	err := json.Unmarshal([]byte(with.body), &result)
	expect.That(t, err == nil && result.Ref != "" && result.Receipt.Record.Ref == result.Ref &&
		strings.HasPrefix(with.body, same+`"ref":"`+result.Ref+`","receipt":{`), "%d, %v: %s, without it %s",
		with.status, err, with.body, plain.body)
	invalid := s.send(t, "POST", "/api/check", `{"domain":"example.com","receipt":1}`, auth...)
	expect.That(t, invalid.status == 400 && strings.Contains(invalid.body,
		"receipt: must be true or false, not a number"), "%d %s", invalid.status, invalid.body)
	without := start(t, Config{Receipts: failingReceipts{}})
	r := without.send(t, "POST", "/api/check", `{"domain":"example.com","receipt":true}`, auth...)
	r.is(t, "a check whose receipt cannot be read", 200, `,"receipt":null}`)
}

type failingReceipts struct{}

func (failingReceipts) Receipt(context.Context, check.Caller, string, bool) (json.RawMessage, bool, error) {
	return nil, false, errors.New(secret)
}

// A receipt without a proof says when to ask again.
func TestReceiptBeforeItsProof(t *testing.T) {
	t.Parallel()
	s := start(t, Config{})
	for ref, wait := range map[string]string{knownRef: "", largeRef: proofWait} {
		r := s.ask(t, goodKey, "GET "+receiptsPrefix+ref, "")
		expect.That(t, r.status == 200 && r.header.Get("Retry-After") == wait, "%s: %d %v", ref, r.status, r.header)
	}
}
