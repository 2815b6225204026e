package client

import (
	"context"
	"encoding/json"
	"errors"
	"iter"
	"net/http"
	"net/url"
	"strconv"
	"time"
)

// Query selects recorded checks. The zero value selects all.
type Query struct {
	Verdict Verdict   `json:"verdict,omitempty"`
	Type    string    `json:"type,omitempty"`
	Key     string    `json:"key,omitempty"`  // the id of an API key
	From    time.Time `json:"from,omitzero"`  // the first time that is included
	Until   time.Time `json:"until,omitzero"` // the first time that is excluded

	Request // at most one value that was checked; ExportChecks takes none
}

// RecordedCheck is a check as the audit log records it.
type RecordedCheck struct {
	Ref        string    `json:"ref"`
	Timestamp  time.Time `json:"timestamp"`
	Type       string    `json:"type"`
	Score      int       `json:"score"`
	Verdict    Verdict   `json:"verdict"`
	Key        string    `json:"key"`        // the id of the key that requested it
	Revision   int       `json:"revision"`   // of the lineup that decided
	Overridden bool      `json:"overridden"` // whether an override decided the verdict
}

// CheckDetails is a recorded check with its webhook event, feedback and review.
type CheckDetails struct {
	RecordedCheck
	Record   json.RawMessage `json:"record"` // its place in the audit log, and the first checkpoint that covers it
	Webhook  *Delivery       `json:"webhook"`
	Feedback *Feedback       `json:"feedback"`
	Review   *HumanReview    `json:"review"`
}

// Delivery is the state of a webhook event.
type Delivery struct {
	Event    string `json:"event"`
	State    string `json:"state"` // pending, delivered or failed
	Attempts int    `json:"attempts"`
}

// ListedEvent is a webhook event with its delivery. Once it is delivered, its Data has neither query nor signals.
type ListedEvent struct {
	Sequence int64 `json:"sequence"`
	Delivery
	Timestamp string    `json:"timestamp"`
	Data      EventData `json:"data"`
}

// Usage is an account's usage in a month.
type Usage struct {
	Month    string `json:"month"`
	Quota    int    `json:"quota"`
	Used     int    `json:"used"`
	Forecast *int   `json:"forecast"` // of Used at the end of the month; nil if unknown

	Counts []struct { // the checks with the same day, key, type and verdict
		Date, Key, Type string
		Verdict         Verdict
		Checks          int
	}
}

// OverrideRequest sets the verdict on a value, or on a group of values, in advance. Set one of Domain, Email, Phone,
// IBAN, RegistrableDomain, NumberRange and Bank.
type OverrideRequest struct {
	Action            Verdict   `json:"action"` // Block or Allow
	RegistrableDomain string    `json:"registrable_domain,omitempty"`
	NumberRange       string    `json:"number_range,omitempty"`
	Bank              string    `json:"bank,omitempty"`
	Reason            string    `json:"reason"`
	Author            string    `json:"author,omitempty"`
	ExpiresAt         time.Time `json:"expires_at"`

	Request
}

// Override is a verdict that was set in advance.
type Override struct {
	ID        string    `json:"id"`
	Action    Verdict   `json:"action"`
	Kind      string    `json:"kind"`
	Target    string    `json:"target"` // masked
	Reason    string    `json:"reason"`
	Author    string    `json:"author"`
	CreatedAt time.Time `json:"created_at"`
	ExpiresAt time.Time `json:"expires_at"`
	Replaced  string    `json:"replaced"` // the id of the override that it replaced when it was added
	Ignored   string    `json:"ignored"`  // why checks ignore it: expired or altered
}

// Search lists the recorded checks that match, newest first. It requests each page when it needs it.
func (c *Client) Search(ctx context.Context, query Query) iter.Seq2[RecordedCheck, error] {
	type asked struct {
		Query
		After string `json:"after,omitempty"`
	}
	type page struct {
		Checks []RecordedCheck `json:"checks"`
		Next   string          `json:"next"` // empty for null
	}
	return pages(func(after string) ([]RecordedCheck, string, error) {
		p, err := call[page](ctx, c, http.MethodPost, "/api/checks/search", asked{query, after})
		return p.Checks, p.Next, err
	})
}

// Events lists the account's webhook events with a sequence number above after, in order.
func (c *Client) Events(ctx context.Context, after int64) iter.Seq2[ListedEvent, error] {
	type page struct {
		Events []ListedEvent `json:"events"`
		Next   int64         `json:"next"`
		More   bool          `json:"more"`
	}
	return pages(func(place string) ([]ListedEvent, string, error) {
		if place == "" {
			place = strconv.FormatInt(after, 10)
		}
		p, err := call[page](ctx, c, http.MethodGet, "/api/events?limit=100&after="+place, nil)
		if !p.More {
			return p.Events, "", err
		}
		return p.Events, strconv.FormatInt(p.Next, 10), err
	})
}

// pages yields the items of all pages. read reads the page after a place, and returns the next place, "" for none.
func pages[T any](read func(after string) ([]T, string, error)) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		for after := ""; ; {
			all, next, err := read(after)
			if err != nil {
				yield(*new(T), err)
				return
			}
			for _, one := range all {
				if !yield(one, nil) {
					return
				}
			}
			if after = next; after == "" {
				return
			}
		}
	}
}

// RecordedCheck returns a recorded check.
func (c *Client) RecordedCheck(ctx context.Context, ref string) (CheckDetails, error) {
	return call[CheckDetails](ctx, c, http.MethodGet, "/api/checks/"+url.PathEscape(ref), nil)
}

// ExportChecks returns all recorded checks that match, in the format csv or json. It may take as long as Wait.
func (c *Client) ExportChecks(ctx context.Context, format string, query Query) ([]byte, error) {
	if query.Request != (Request{}) {
		return nil, errors.New("checks cannot be exported by value")
	}
	values := url.Values{"format": {format}}
	for name, value := range map[string]string{"verdict": string(query.Verdict), "type": query.Type, "key": query.Key} {
		if value != "" {
			values.Set(name, value)
		}
	}
	for name, value := range map[string]time.Time{"from": query.From, "until": query.Until} {
		if !value.IsZero() {
			values.Set(name, value.Format(time.RFC3339Nano))
		}
	}
	patient := *c
	patient.AttemptTimeout, patient.Timeout = c.Wait, c.Wait
	a, err := patient.send(ctx, http.MethodGet, "/api/checks/export?"+values.Encode(), nil)
	return a.body, err
}

// Usage returns the account's usage in a month, such as 2026-01, or in the current month if month is empty.
func (c *Client) Usage(ctx context.Context, month string) (Usage, error) {
	if month != "" {
		month = "?month=" + url.QueryEscape(month)
	}
	return call[Usage](ctx, c, http.MethodGet, "/api/usage"+month, nil)
}

// SetOverride sets a verdict in advance. It replaces an override of the same value.
func (c *Client) SetOverride(ctx context.Context, request OverrideRequest) (Override, error) {
	return call[Override](ctx, c, http.MethodPost, "/api/overrides", request)
}

// Overrides lists the account's overrides.
func (c *Client) Overrides(ctx context.Context) ([]Override, error) {
	type list struct {
		Overrides []Override `json:"overrides"`
	}
	a, err := call[list](ctx, c, http.MethodGet, "/api/overrides", nil)
	return a.Overrides, err
}

// RemoveOverride removes an override.
func (c *Client) RemoveOverride(ctx context.Context, id string) error {
	_, err := c.send(ctx, http.MethodDelete, "/api/overrides?id="+url.QueryEscape(id), nil)
	return err
}
