package check

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"assay/host/entity"
)

// ErrUnauthorized means that the key is unknown, malformed, revoked or cancelled. It does not reveal which (contract
// section 7).
var ErrUnauthorized = errors.New("the API key is missing, malformed, revoked or cancelled")

// ErrExpired is the ErrUnauthorized of a key that has expired. Revealing this helps only the holder of the key.
var ErrExpired error = unauthorized("the API key has expired")

// ErrSuspended is the ErrUnauthorized of a key whose account the operator suspended.
var ErrSuspended error = unauthorized("the account is suspended; write to the operator of this service")

// unauthorized is an ErrUnauthorized with a reason.
type unauthorized string

func (u unauthorized) Error() string { return string(u) }
func (unauthorized) Unwrap() error   { return ErrUnauthorized }

// ErrRevision means that a decision was not recorded, because its lineup is no longer in force.
var ErrRevision = errors.New("the lineup was replaced while the check was scored")

// UnavailableError means that the host cannot score or record a check in full at the moment: a layer, one of the host's
// own facts or the database is missing for a reason unrelated to the entity and the lineup. The host refuses such a
// check, because an incomplete score would depend on the load. Nothing was counted.
type UnavailableError struct {
	Part string // what is missing, such as "layer lexical@1.2.0"; for the log. Its first word is a metric label
	Err  error
}

func (e *UnavailableError) Error() string {
	return fmt.Sprintf("%s unavailable: %v", e.Part, e.Err)
}

// Reason returns a word for metrics: deadline, or the first word of the missing part.
func (e *UnavailableError) Reason() string {
	if errors.Is(e.Err, context.DeadlineExceeded) {
		return "deadline"
	}
	reason, _, _ := strings.Cut(e.Part, " ")
	return reason
}

func (e *UnavailableError) Unwrap() error { return e.Err }

// DoubtError means that a request may have taken effect, in whole or in part, because the database's answer was lost or
// late. It does not unwrap, so that no caller mistakes it for its cause and reports a refusal.
type DoubtError struct{ Err error }

func (e *DoubtError) Error() string { return fmt.Sprintf("the outcome is unknown: %v", e.Err) }

// NoFieldError means that a request has none of the scorable fields. Its text lists all four (contract section 7).
type NoFieldError struct {
	Hint string // follows the text; may be empty
}

func (e NoFieldError) Error() string {
	return "one of domain, email, phone or iban is required" + e.Hint
}

// PlanError means that the caller's plan does not include an entity type or a feature.
type PlanError struct {
	Plan    string
	Type    entity.Type // "" if Feature is set
	Feature string      // a plural, such as "batch checks"
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

// QuotaError means that the remaining monthly quota does not cover the requested checks. Nothing was counted.
type QuotaError struct {
	Quota   int
	Left    int       // remaining checks
	Needed  int       // requested checks
	ResetAt time.Time // the first instant of the next calendar month, UTC
}

func (e *QuotaError) Error() string {
	if e.Left > 0 {
		return fmt.Sprintf("the batch needs %d checks, but the monthly quota of %d has only %d left; it resets on %s",
			e.Needed, e.Quota, e.Left, e.ResetAt.UTC().Format(time.DateOnly))
	}
	return fmt.Sprintf("the monthly quota of %d checks is used up; it resets on %s",
		e.Quota, e.ResetAt.UTC().Format(time.DateOnly))
}

// InternalError is an unexpected failure of a check. Nothing was counted, unless the outcome of the commit is unknown.
type InternalError struct {
	Ref string // the caller quotes it to support; it is logged
	Err error
}

func (e *InternalError) Error() string { return fmt.Sprintf("check %s: %v", e.Ref, e.Err) }
func (e *InternalError) Unwrap() error { return e.Err }
