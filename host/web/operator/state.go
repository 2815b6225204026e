package operator

import (
	"fmt"
	"time"
)

// State is the state of a host and its shared data for the page. It contains neither keys nor values that were checked.
type State struct {
	At       time.Time `json:"at"`
	Host     string    `json:"host"` // its name in Hosts
	Version  string    `json:"version"`
	NotReady []Warning `json:"not_ready"` // why the host takes no checks; empty: it takes checks
	Warnings []Warning `json:"warnings"`
	Hosts    []Host    `json:"hosts"`
	Lineup   Lineup    `json:"lineup"`
	Queues   Queues    `json:"queues"`
	Audit    Audit     `json:"audit"`
	// Unknown gives the reason for each Part that could not be read. Its values above are empty.
	Unknown map[Part]string `json:"unknown"`
}

// Part is a part of a State that is read from the database.
type Part string

// The parts.
const (
	Hosts    Part = "hosts"
	Webhooks Part = "webhooks"
	Graph    Part = "graph"
	Lists    Part = "lists"
	Chains   Part = "chains"
	Contests Part = "reviews"
)

// Severity orders warnings.
type Severity string

// The severities. A host with cautions or advice is still healthy.
const (
	Problem Severity = "problem" // something does not work as it should
	Caution Severity = "caution" // a setting that is wrong in most installations
	Advice  Severity = "advice"  // a setting that is fine for a trial and wrong for a service
)

// Warning is something that an operator should know. Text between backticks is shown as code.
type Warning struct {
	Severity Severity `json:"severity"`
	What     string   `json:"what"`
	Do       string   `json:"do"` // about it
}

// Host is a host that shares the database.
type Host struct {
	Name       string        `json:"name"`
	This       bool          `json:"this"`              // the host that is asked
	Version    string        `json:"version,omitempty"` // "" if that is not known
	Seen       time.Duration `json:"seen_ns"`           // since it last reported
	Silent     bool          `json:"silent"`            // for so long that others do not wait for it
	Since      time.Time     `json:"since"`             // when it started
	Activation int64         `json:"activation"`        // that it runs; 0: none
	Revision   int64         `json:"revision"`
	Refused    int64         `json:"refused,omitempty"` // the activation that it cannot run
	Problem    string        `json:"problem,omitempty"` // why
	Canary     string        `json:"canary,omitempty"`  // effect of the canary on its checks
}

// Lineup is the lineup that the host runs.
type Lineup struct {
	Activation int64     `json:"activation"` // 0: none
	Revision   int64     `json:"revision"`
	Author     string    `json:"author"`
	Reason     string    `json:"reason"`
	Since      time.Time `json:"since"`
	Canary     *Canary   `json:"canary,omitempty"`
	Layers     []Layer   `json:"layers"`
	Shadow     *Shadow   `json:"shadow,omitempty"` // nil: no layer is in shadow
	Weights    string    `json:"weights"`          // the meaning of the layers' weights, in a sentence
}

// Canary is a lineup that decides for a share of the accounts.
type Canary struct {
	Revision int64  `json:"revision"`
	Share    int    `json:"share_percent"` // of the accounts
	Limit    string `json:"limit"`         // the share of its verdicts that may differ
}

// Layer is a layer of the lineup, with its calls on this host since it started.
type Layer struct {
	Name      string             `json:"name"`
	Version   string             `json:"version"`
	Mode      string             `json:"mode"`    // live, shadow or off
	Weights   map[string]float64 `json:"weights"` // by the types of entity that it scores
	Required  bool               `json:"required"`
	Scored    uint64             `json:"scored"`
	Abstained uint64             `json:"abstained"`
	Failed    map[string]uint64  `json:"failed"`      // by reason
	Budget    int64              `json:"budget_fuel"` // of a call; 0: not known
	FuelMean  float64            `json:"fuel_mean"`
	FuelP99   float64            `json:"fuel_p99_below"` // at least 99 of 100 calls used at most this much
}

// Shadow counts the changes that layers in shadow would have made on this host since it started.
type Shadow struct {
	Checks  uint64 `json:"checks"`
	Changed uint64 `json:"changed"`  // of these, how many would have another verdict
	LeftOut uint64 `json:"left_out"` // checks whose shadow layers did not run
}

// Queues are the host's queues.
type Queues struct {
	Checks   int            `json:"checks_in_progress"` // accepted by this host and not answered
	Wait     time.Duration  `json:"predicted_wait_ns"`  // of a new check on this host
	Target   time.Duration  `json:"target_ns"`          // a check is refused if Wait is longer
	Ledger   int            `json:"ledger"`             // checks that waited when this host's last batch ended
	Graph    GraphQueue     `json:"graph"`
	Webhooks WebhookQueue   `json:"webhooks"`
	Lists    map[string]int `json:"lists"` // subscribed lists by state
	Reviews  ReviewQueue    `json:"reviews"`
}

// ReviewQueue holds the reviews that no person has settled yet.
type ReviewQueue struct {
	Open   int           `json:"open"`
	Oldest time.Duration `json:"oldest_ns"`
}

// GraphQueue holds the recorded checks that are not in the reputation graph yet.
type GraphQueue struct {
	Checks int           `json:"checks"`
	Oldest time.Duration `json:"oldest_ns"`
	More   bool          `json:"more,omitempty"` // than were counted
}

// WebhookQueue holds the webhook events that are not delivered yet.
type WebhookQueue struct {
	Pending  int           `json:"pending"`
	Due      int           `json:"due"`     // of these, now
	Retried  int           `json:"retried"` // of these, after an attempt that failed
	Late     time.Duration `json:"late_ns"` // since the oldest one was due
	More     bool          `json:"more,omitempty"`
	Failing  int           `json:"failing_endpoints"`
	Disabled int           `json:"disabled_endpoints"`
}

// Audit is the condition of the audit chains' ends. Only `assay audit verify` reads all of them.
type Audit struct {
	Chains []Chain `json:"chains"`
}

// Chain is the end of an audit chain.
type Chain struct {
	Number  int       `json:"number"`
	Records int64     `json:"records"`
	At      time.Time `json:"at"`        // of the last record; zero if there is none
	Signed  int64     `json:"signed"`    // records below the last checkpoint of this host; 0: it signed none yet
	SignAt  time.Time `json:"signed_at"` // zero if it signed none yet
	Damage  string    `json:"damage,omitempty"`
}

// Health is the state in one word.
type Health string

// The states of health.
const (
	Healthy   Health = "healthy"
	Attention Health = "attention" // it answers checks, but something is wrong or cannot be seen
	Failing   Health = "failing"   // it takes no checks
)

// Health summarises the state.
func (s *State) Health() Health {
	switch {
	case len(s.NotReady) > 0:
		return Failing
	case s.count(Problem) > 0 || len(s.Unknown) > 0:
		return Attention
	}
	return Healthy
}

// Headline is the state in one sentence.
func (s *State) Headline() string {
	switch problems := s.count(Problem); {
	case len(s.NotReady) > 0:
		return "This host takes no checks"
	case problems == 1:
		return "This host takes checks, but 1 problem needs attention"
	case problems > 1:
		return fmt.Sprintf("This host takes checks, but %d problems need attention", problems)
	case len(s.Unknown) > 0:
		return "This host takes checks, but not all of its state could be read"
	}
	return "Healthy: this host takes checks, and no problem is known"
}

// Missing returns why a part is unknown, or "".
func (s *State) Missing(part Part) string { return s.Unknown[part] }

func (s *State) count(severity Severity) (n int) {
	for _, w := range s.Warnings {
		if w.Severity == severity {
			n++
		}
	}
	return n
}

// Calls is the number of the layer's calls that had an outcome.
func (l Layer) Calls() uint64 { return l.Scored + l.Abstained + l.Failures() }

// Failures is the number of the layer's calls that failed.
func (l Layer) Failures() (n uint64) {
	for _, count := range l.Failed {
		n += count
	}
	return n
}
