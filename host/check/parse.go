package check

import (
	"strings"

	"assay/host/entity"
)

// parsed holds the entities of a request.
type parsed struct {
	account string // the caller's; empty if there is none
	share   string // Caller.Share; empty for the account's
	scored  entity.Entity
	query   string // scored's value as it was sent
	linked  []entity.Entity

	warnings []Warning
	override *Override // nil: none
}

func (p parsed) record(caller Caller, lookedUp entity.Facts, d *Decision) Record {
	return Record{Caller: caller, Entity: p.scored, Linked: p.linked, LookedUp: lookedUp, Decision: d}
}

// Validate returns the error of a request that no host could score: a NoFieldError, *entity.InvalidError or *PlanError.
func (r Request) Validate() error {
	_, err := parseCovered(r)
	return err
}

// parseCovered parses a request whose scored entity the caller's plan must cover.
func parseCovered(req Request) (parsed, error) {
	p, err := parse(req)
	p.account, p.share = req.Caller.Account, req.Caller.Share()
	if err == nil && !req.Caller.Plan.Covers(p.scored.Type) {
		err = &PlanError{Plan: req.Caller.Plan.Name, Type: p.scored.Type}
	}
	return p, err
}

// parse parses the fields of a request. A field that contains only white space counts as absent. An invalid field
// after the scored one is not linked, and the caller is warned.
func parse(req Request) (p parsed, err error) {
	p.warnings = req.Warnings
	country, err := entity.Country(req.Country)
	if err != nil {
		return p, err
	}
	found := false
	for _, t := range entity.Types() {
		for _, f := range req.Fields {
			if f.Type != t || strings.TrimSpace(f.Value) == "" {
				continue
			}
			e, err := entity.Parse(t, f.Value, country)
			switch {
			case found && err != nil:
				p.warnings = append(p.warnings, Warning{Field: string(t), Message: err.Error()})
			case err != nil:
				return p, err
			case found:
				p.linked = append(p.linked, e)
			default:
				p.scored, p.query, found = e, f.Value, true
			}
		}
	}
	if !found {
		return p, NoFieldError{}
	}
	return p, nil
}
