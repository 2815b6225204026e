package check

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"assay/host/entity"
)

// ErrUnauthorized means that the key is unknown, malformed, revoked or cancelled; which one is not told (spec section
// 7).
var ErrUnauthorized = errors.New("the API key is missing, malformed, revoked or cancelled")

// ErrOverloaded means that the host has more checks under way than it can finish in time. Nothing was counted.
var ErrOverloaded = errors.New("too many checks are under way")

// NoFieldError means that none of the scorable fields was given. Its text lists the four names (spec section 7).
type NoFieldError struct{}

func (NoFieldError) Error() string {
	return "one of domain, email, phone or iban is required"
}

// PlanError means that the caller's plan does not cover what was asked for.
type PlanError struct {
	Plan    string
	Type    entity.Type // "" when it is about Feature
	Feature string      // batch checks, ...: in the plural
}

func (e *PlanError) Error() string {
	if e.Feature != "" {
		return fmt.Sprintf("the %s plan does not include %s", e.Plan, e.Feature)
	}
	plan, _ := PlanNamed(e.Plan)
	names := make([]string, len(plan.Types))
	for i, t := range plan.Types {
		names[i] = string(t)
	}
	return fmt.Sprintf("the %s plan does not cover %s checks, only %s", e.Plan, e.Type, strings.Join(names, " and "))
}

// QuotaError means that the month's quota does not cover what was asked for. Nothing was counted.
type QuotaError struct {
	Quota   int
	Left    int       // of the quota
	Needed  int       // checks asked for together
	ResetAt time.Time // the first instant of the next calendar month, UTC
}

func (e *QuotaError) Error() string {
	if e.Left > 0 {
		return fmt.Sprintf("the batch needs %d checks and %d of the monthly quota of %d are left; it resets on %s",
			e.Needed, e.Left, e.Quota, e.ResetAt.UTC().Format(time.DateOnly))
	}
	return fmt.Sprintf("the monthly quota of %d checks is used up; it resets on %s", e.Quota,
		e.ResetAt.UTC().Format(time.DateOnly))
}

// InternalError is an internal error of one check. Nothing was counted, unless the outcome of the commit is unknown.
type InternalError struct {
	Ref string // what the caller quotes to support; also in the log
	Err error
}

func (e *InternalError) Error() string { return fmt.Sprintf("check %s: %v", e.Ref, e.Err) }
func (e *InternalError) Unwrap() error { return e.Err }
