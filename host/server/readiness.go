package server

import (
	"errors"

	"assay/host/check"
	"assay/host/customer/override"
	"assay/host/facts/reputation"
	"assay/host/lineup"
	"assay/host/store"
	"assay/host/web/admin"
)

// readiness reports which requirements for answering checks a host lacks: a database that records them, a clock that
// agrees with the database's, a lineup in force, and the imported lists.
type readiness struct {
	store    *store.Store
	follower *lineup.Follower
	lists    *reputation.Similar
	override *override.Index
}

func (r readiness) problems() []admin.Problem {
	var problems []admin.Problem
	for _, p := range r.store.Problems() {
		problems = append(problems, admin.Problem{Part: p.Part, Reason: p.Reason, Err: p.Err})
	}
	if r.follower.State().Revision == 0 {
		problems = append(problems, admin.Problem{Part: "lineup", Err: check.ErrNoLineup})
	}
	if err := r.lists.Ready(); err != nil {
		problems = append(problems, admin.Problem{Part: "lists", Err: err})
	}
	if err := r.override.Ready(); err != nil {
		problems = append(problems, admin.Problem{Part: "overrides", Err: err})
	}
	return problems
}

// err returns the problems as one error, or nil if there are none.
func (r readiness) err() error {
	var errs []error
	for _, p := range r.problems() {
		errs = append(errs, p.Error())
	}
	return errors.Join(errs...)
}
