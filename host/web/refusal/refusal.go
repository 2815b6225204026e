// Package refusal maps errors to responses: one table of status, code and text for the API and the pages.
package refusal

import (
	"errors"
	"net/http"
	"time"

	"assay/host/access/admission"
	"assay/host/access/apikey"
	"assay/host/check"
	"assay/host/customer/billing"
	"assay/host/customer/decision"
	"assay/host/customer/feedback"
	"assay/host/customer/override"
	"assay/host/customer/privacy"
	"assay/host/customer/webhook"
	"assay/host/entity"
)

// Refusal is an error at the level of HTTP. Its text is for the client: a clause without a full stop for the API,
// sentences for a page.
type Refusal struct {
	Status  int
	Code    string // one of the codes, for programs; "" on pages
	Text    string
	Field   string    // of the request, if one is invalid
	ResetAt time.Time // when an exceeded limit ends, if one was
}

func (r *Refusal) Error() string { return r.Text }

// Retry reports whether the client should send the request again soon. Nothing was recorded or counted (contract
// section 7). It is false if r is nil.
func (r *Refusal) Retry() bool { return r != nil && r.Status == http.StatusServiceUnavailable }

// Page returns a refusal that is shown as a page.
func Page(status int, text string) *Refusal { return &Refusal{Status: status, Text: text} }

// The codes of errors, for programs. Texts may change, codes do not (contract section 7).
const (
	Request      = "invalid_request"
	Body         = "invalid_body"
	Field        = "invalid_field"
	NoField      = "no_field"
	Unauthorized = "unauthorized"
	Expired      = "key_expired"
	Suspended    = "account_suspended"
	Plan         = "plan_required"
	Scope        = "scope_missing"
	Address      = "address_refused"
	Forbidden    = "forbidden"
	NotFound     = "not_found"
	Method       = "method_not_allowed"
	Slow         = "too_slow"
	TooLarge     = "too_large"
	Head         = "headers_too_large"
	Conflict     = "conflict"
	Media        = "media_type"
	Quota        = "quota_exhausted"
	Hourly       = "hourly_limit"
	Rate         = "rate_limited"
	Busy         = "busy"
	Share        = "share_exhausted"
	Unavailable  = "unavailable"
	NotReady     = "not_ready"
	Connections  = "too_many_connections"
	Internal     = "internal"
	Uncertain    = "uncertain"
)

// plain are errors whose texts are for the client. The first match counts.
var plain = []struct {
	err    error
	status int
	code   string
}{
	{privacy.ErrUnknownRequest, http.StatusNotFound, NotFound},
	{privacy.ErrNoExport, http.StatusNotFound, NotFound},
	{privacy.ErrUnknownSubject, http.StatusNotFound, NotFound},
	{feedback.ErrUnknownCheck, http.StatusNotFound, NotFound},
	{decision.ErrNoReview, http.StatusNotFound, NotFound},
	{override.ErrUnknown, http.StatusNotFound, NotFound},
	{apikey.ErrNotFound, http.StatusNotFound, NotFound},
	{webhook.ErrNoEvent, http.StatusNotFound, NotFound},
	{webhook.ErrNoEndpoint, http.StatusConflict, Conflict},
	{webhook.ErrPayloadGone, http.StatusConflict, Conflict},
	{webhook.ErrEventPending, http.StatusConflict, Conflict},
	{webhook.ErrEndpointDisabled, http.StatusConflict, Conflict},
	{billing.ErrNoPlan, http.StatusBadRequest, Request},
	{billing.ErrNotForSale, http.StatusForbidden, Forbidden},
	{billing.ErrNotPaid, http.StatusConflict, Conflict},
	{billing.ErrDue, http.StatusConflict, Conflict},
	{check.ErrOtherRequest, http.StatusConflict, Conflict},
	{check.ErrSuspended, http.StatusForbidden, Suspended},
	{check.ErrExpired, http.StatusUnauthorized, Expired},
	{check.ErrUnauthorized, http.StatusUnauthorized, Unauthorized},
	{admission.ErrBusy, http.StatusServiceUnavailable, Busy},
	{admission.ErrShare, http.StatusServiceUnavailable, Share},
}

// Of returns the refusal for an error, or nil if there is none: then the client must not see the error's text.
func Of(err error) *Refusal {
	var (
		refused *Refusal
		none    check.NoFieldError
		invalid *entity.InvalidError
		tooMany override.TooManyError
		plan    *check.PlanError
		quota   *check.QuotaError
		rate    *admission.RateError
		missing *check.UnavailableError
		cards   *billing.DeclinedError
	)
	for _, p := range plain {
		if errors.Is(err, p.err) {
			return &Refusal{Status: p.status, Code: p.code, Text: p.err.Error()}
		}
	}
	switch {
	case errors.As(err, &refused):
		return refused
	case errors.As(err, &none):
		return &Refusal{Status: http.StatusBadRequest, Code: NoField, Text: none.Error()}
	case errors.As(err, &invalid):
		return &Refusal{Status: http.StatusBadRequest, Code: Field, Text: invalid.Error(), Field: invalid.Field}
	case errors.As(err, &tooMany):
		return &Refusal{Status: http.StatusBadRequest, Code: Body, Text: tooMany.Error()}
	case errors.As(err, &plan):
		return &Refusal{Status: http.StatusForbidden, Code: Plan, Text: plan.Error()}
	case errors.As(err, &quota):
		return &Refusal{Status: http.StatusTooManyRequests, Code: Quota, Text: quota.Error(), ResetAt: quota.ResetAt}
	case errors.As(err, &rate):
		return &Refusal{Status: http.StatusTooManyRequests, Code: Rate, Text: rate.Error(), ResetAt: rate.Until}
	case errors.As(err, &cards):
		return &Refusal{Status: http.StatusTooManyRequests, Code: Rate, Text: cards.Error(), ResetAt: cards.Until}
	case errors.As(err, &missing):
		return &Refusal{Status: http.StatusServiceUnavailable, Code: Unavailable,
			Text: "the request cannot be answered in full at the moment; nothing was counted, try again"}
	}
	return nil
}
