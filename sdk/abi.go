// Package sdk lets authors write a scoring layer as one Go function. It imports nothing of the host, and in guests only
// the standard library, so that a layer builds anywhere.
//
// A layer is a pure function of the facts about one entity. It reads facts, emits signals (points, a stable code and a
// sentence for a person), may name a threat, and returns whether it scored or abstains. Compiled for wasip1, it calls
// the host through the interface in ABI.md. Compiled natively, the same function runs under `go test` through [Run],
// with the same limits.
package sdk

// The limits of one call (ABI.md section 5). The host refuses the whole answer of a layer that exceeds one, except that
// it cuts a longer text, and drops log text beyond LogBytes.
const (
	MaxSignals   = 64
	MaxPoints    = 100 // a signal is worth -MaxPoints to MaxPoints
	MaxCodeBytes = 96
	MaxTextBytes = 240
	LogBytes     = 4096
	MaxFactName  = 64 // bytes
)

// Outcome is the result of assay_v1_score (ABI.md section 4). Any other value means that the layer failed.
type Outcome int32

// The outcomes. A layer abstains when it cannot assess an entity; its points then do not count.
const (
	Scored    Outcome = 0
	Abstained Outcome = 1
	Failed    Outcome = 2
)

// Level is the severity of a log line (ABI.md section 3).
type Level int32

// The levels, with the values of log/slog.
const (
	Debug Level = -4
	Info  Level = 0
	Warn  Level = 4
	Error Level = 8
)

// Threat is a category of fraud from the published list. The host refuses any other.
type Threat string

// The published threat categories (ABI.md section 6).
const (
	Phishing       Threat = "phishing"        // steals credentials or card data by imitating another site
	Impersonation  Threat = "impersonation"   // uses the name of a brand or an official body
	Scam           Threat = "scam"            // deceives with shops, prizes, romance, jobs or threats
	InvestmentScam Threat = "investment_scam" // promises returns, mostly in crypto assets
	Malware        Threat = "malware"         // delivers or controls malicious software
	Spam           Threat = "spam"            // sends unsolicited bulk mail, messages or calls
	Disposable     Threat = "disposable"      // is a throw-away address
	FakeIdentity   Threat = "fake_identity"   // cannot belong to a real person or bank: invalid or made up
	TollFraud      Threat = "toll_fraud"      // earns from calls: premium-rate and revenue-share numbers
)

// Threats returns every published category, in the order of ABI.md.
func Threats() []Threat {
	return []Threat{Phishing, Impersonation, Scam, InvestmentScam, Malware, Spam, Disposable, FakeIdentity, TollFraud}
}

// Published reports whether t is a published category.
func (t Threat) Published() bool {
	switch t {
	case Phishing, Impersonation, Scam, InvestmentScam, Malware, Spam, Disposable, FakeIdentity, TollFraud:
		return true
	}
	return false
}
