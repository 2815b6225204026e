package check

import (
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/oklog/ulid/v2"

	"assay/host/entity"
)

// TestValue is a value that a test key can check. docs/testing.md lists all.
type TestValue struct {
	Type entity.Type
	// Value is normalised. An email address is named by its domain: tests of a sign-up need many addresses.
	Value  string
	Answer string // a verdict, TestQuota or TestUnavailable
}

// Answers to test values that are errors.
const (
	TestQuota       = "quota"       // a *QuotaError, as if the month's quota were used up
	TestUnavailable = "unavailable" // an *UnavailableError
)

// TestValues returns the values that test keys can check. They belong to nobody: the top-level domain is reserved for
// tests (RFC 2606), the numbers are reserved for fiction, and no bank has the code TEST.
func TestValues() []TestValue {
	answers := []string{string(Allow), string(Review), string(Block), TestQuota, TestUnavailable}
	phones := []string{"+12025550100", "+12025550101", "+12025550102", "+12025550103", "+12025550104"}
	ibans := []string{"GB05TEST00000000000000", "GB75TEST00000000000001", "GB48TEST00000000000002",
		"GB21TEST00000000000003", "GB91TEST00000000000004"}
	var all []TestValue
	for i, answer := range answers {
		all = append(all,
			TestValue{entity.Domain, answer + ".test", answer}, TestValue{entity.Email, answer + ".test", answer},
			TestValue{entity.Phone, phones[i], answer}, TestValue{entity.IBAN, ibans[i], answer})
	}
	return all
}

// testAnswers are the fixed results by verdict. Their scores are within the default bands, whatever the lineup's are.
var testAnswers = map[string]Fused{
	string(Allow):  {Score: 5, Verdict: Allow},
	string(Review): {Score: 55, Verdict: Review, Threat: "scam"},
	string(Block):  {Score: 95, Verdict: Block, Threat: "phishing"},
}

// testSignal marks every answer to a test key.
var testSignal = Signal{Code: "host:test:fixed", Text: hostText + "Fixed answer to a test key, nothing was scored"}

// answerTest returns the fixed answer to a check with a test key, which depends only on the value and the time.
func answerTest(caller Caller, p parsed, now time.Time) (*Decision, error) {
	name := p.scored.Value
	if p.scored.Type == entity.Email {
		name = name[strings.LastIndexByte(name, '@')+1:]
	}
	values := slices.DeleteFunc(TestValues(), func(v TestValue) bool { return v.Type != p.scored.Type })
	i := slices.IndexFunc(values, func(v TestValue) bool { return v.Value == name })
	if i < 0 {
		example := values[0].Value
		if p.scored.Type == entity.Email {
			example = "jane@" + example
		}
		return nil, &entity.InvalidError{Field: string(p.scored.Type),
			Reason: "is not a test value such as " + example + ", and a test key checks no other"}
	}
	fused := testAnswers[values[i].Answer]
	switch values[i].Answer {
	case TestQuota:
		return nil, &QuotaError{Quota: caller.Plan.Quota, ResetAt: nextMonth(now)}
	case TestUnavailable:
		return nil, &UnavailableError{Part: "test", Err: errors.New("a test key asked for this")}
	}
	fused.Lowest, fused.Highest, fused.Signals = fused.Score, fused.Score, []Signal{testSignal}
	return &Decision{Fused: fused, Ref: "test_" + ulid.Make().String(), Type: p.scored.Type, Query: p.query,
		At: now.UTC().Truncate(time.Millisecond), Warnings: p.warnings}, nil
}

// answerTests sets the answers to the requests of a batch that have no error. A value whose answer is an error for a
// whole batch ends the batch.
func answerTests(caller Caller, requests []parsed, answers []Answer, now time.Time) ([]Answer, error) {
	for i, p := range requests {
		if answers[i].Err != nil {
			continue
		}
		answers[i].Decision, answers[i].Err = answerTest(caller, p, now)
		if err := answers[i].Err; err != nil && !errors.As(err, new(*entity.InvalidError)) {
			return nil, err
		}
	}
	return answers, nil
}
