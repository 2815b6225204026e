package check

import (
	"fmt"
	"slices"

	"assay/host/entity"
)

// Override is a verdict that the account or the operator set in advance for an entity or a group of entities.
type Override struct {
	ID       string  `json:"id"`
	Verdict  Verdict `json:"verdict"`  // Block or Allow
	Operator bool    `json:"operator"` // set by the operator for all accounts
	Digest   []byte  `json:"-"`        // names the override in the audit log

	// The findings of the layers. They are set in decisions, but Overrides leaves them empty.
	Score int     `json:"layers_score"`
	Found Verdict `json:"layers_verdict"`
}

// Overrides finds the override for an entity in memory.
type Overrides interface {
	// Find returns the override that decides an account's check of e, or nil. "" stands for a check without an account.
	// It returns an *UnavailableError if its data may be out of date.
	Find(account string, e entity.Entity) (*Override, error)
}

// override returns the override for the scored entity.
func (c *Checker) override(p parsed) (*Override, error) {
	if c.Overrides == nil {
		return nil, nil
	}
	return c.Overrides.Find(p.account, p.scored)
}

// over returns a copy of the override with the layers' findings.
func (o Override) over(f Fused) *Override {
	o.Score, o.Found = f.Score, f.Verdict
	return &o
}

// hold moves the score into the band of the override's verdict, unless it is there already, and puts a signal about the
// override first. The layers' signals remain as reasons for and against. A block keeps the threat that the layers
// found; it has none if they would have allowed the entity.
func (o *Override) hold(f Fused, bands Bands, outcomes []Outcome) Fused {
	f.Verdict = o.Verdict
	if o.Verdict == Block {
		f.Score = max(f.Score, bands.Block)
	} else {
		f.Score, f.Threat = min(f.Score, bands.Review-1), ""
	}
	f.Signals = slices.Insert(f.signals(outcomes), 0, o.signal())
	return f
}

// signal returns the host's signal for a check that o decided.
func (o *Override) signal() Signal {
	done, whose := "Allowed", "your"
	if o.Verdict == Block {
		done = "Blocked"
	}
	if o.Operator {
		whose = "the operator's"
	}
	return Signal{
		Code: "host:override:" + string(o.Verdict),
		Text: hostText + fmt.Sprintf("%s by %s override %s; the layers' score is %d", done, whose, o.ID, o.Score),
	}
}
