// Package sdk is what a layer's author writes against: one function, a manifest, and `go test`.
//
// A layer is a pure function of the facts about one entity. It reads facts, emits signals (each worth some points, with
// a stable code and a sentence for a person), may name a threat, and says whether it scored or abstains. Compiled for
// wasip1 it talks to the host through the interface that ABI.md specifies; compiled natively the same function runs
// under `go test` through [Run], with the same limits.
package sdk

// The limits of one call, ABI.md section 5. The host refuses the whole answer of a layer that passes one, except that
// log text past LogBytes is dropped.
const (
	MaxSignals   = 64
	MaxPoints    = 100 // a signal is worth -MaxPoints to MaxPoints
	MaxCodeBytes = 96
	MaxTextBytes = 240
	LogBytes     = 4096
	MaxFactName  = 64 // bytes
)

// Outcome is what assay_v1_score returns, ABI.md section 4. Every other value means that the layer failed.
type Outcome int32

// The outcomes. A layer that abstains has nothing to say of this entity: its points do not count.
const (
	Scored    Outcome = 0
	Abstained Outcome = 1
	Failed    Outcome = 2
)

// Level is the severity of a log line, ABI.md section 3.
type Level int32

// The levels, as slog numbers them.
const (
	Debug Level = -4
	Info  Level = 0
	Warn  Level = 4
	Error Level = 8
)

// Threat is a category of fraud from the published list. The host refuses any other.
type Threat string

// The published threat categories, ABI.md section 6.
const (
	Phishing      Threat = "phishing"      // steals credentials or card data by posing as a page of somebody else
	Impersonation Threat = "impersonation" // borrows a brand's or an official body's name
	// sells, promises or threatens what is not so: shops, prizes, romance, work
	Scam           Threat = "scam"
	InvestmentScam Threat = "investment_scam" // promises returns, most often in crypto assets
	Malware        Threat = "malware"         // delivers or controls harmful software
	Spam           Threat = "spam"            // unsolicited bulk mail, messages or calls
	Disposable     Threat = "disposable"      // an address made to be thrown away
	// cannot belong to the person or bank it claims: invalid, fictional, made up
	FakeIdentity Threat = "fake_identity"
	TollFraud    Threat = "toll_fraud" // earns by being called: premium rate and revenue share numbers
)

// Threats lists every published category, in the order of ABI.md.
func Threats() []Threat {
	return []Threat{Phishing, Impersonation, Scam, InvestmentScam, Malware, Spam, Disposable, FakeIdentity, TollFraud}
}
