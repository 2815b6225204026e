// Package feedback accepts customers' labels of checked entities: fraud or legitimate. A label is the account's vote in
// the reputation graph. If the checked value is sent with it, the entity is scored again, so that signals can be
// measured and weights fitted; the value is not kept. Package store keeps the labels.
package feedback

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"slices"
	"strings"

	"assay/host/check"
	"assay/host/customer/privacy"
	"assay/host/entity"
)

// Label states what an entity turned out to be.
type Label string

// The labels.
const (
	Fraud      Label = "fraud"
	Legitimate Label = "legitimate"
)

// MaxNote is the maximum length of a note in bytes.
const MaxNote = 500

// Report is an account's feedback on one of its checks.
type Report struct {
	Ref    string // of the check
	Label  Label
	Note   string         // for the account's own records; "" if none
	Entity *entity.Entity // the checked entity; nil if it was not sent
}

// Validate returns an *entity.InvalidError for the first field that is invalid.
func (r Report) Validate() error {
	if err := privacy.ValidateRef("ref", r.Ref); err != nil {
		return err
	}
	if r.Label != Fraud && r.Label != Legitimate {
		return &entity.InvalidError{Field: "label", Reason: `must be "fraud" or "legitimate"`}
	}
	if strings.Trim(r.Note, " \t\r\n") == "" {
		return nil
	}
	return entity.ValidateText("note", r.Note, MaxNote, true)
}

// Kept is the feedback on a check as stored. Its JSON is part of the API.
type Kept struct {
	Ref       string       `json:"ref"`
	Type      string       `json:"type"`
	Label     Label        `json:"label"`
	Note      *string      `json:"note"`   // null if there is none
	Scored    bool         `json:"scored"` // whether the value was sent with this or an earlier report and scored again
	Timestamp privacy.Time `json:"timestamp"`
}

// Layer is the result of one layer when the value was scored again.
type Layer struct {
	Name    string   `json:"name"`
	Version string   `json:"version"`
	Score   int      `json:"score"` // -100 to 100
	Signals []string `json:"signals"`
}

// Labelled is a label with the layer scores for the same entity, without the entity.
type Labelled struct {
	Type   entity.Type
	Label  Label
	Layers []Layer
}

// ErrUnknownCheck means that the account made no such check, or that its data was erased or is past its retention.
var ErrUnknownCheck = errors.New("there is no check with this reference")

// Store keeps feedback. Its methods fail with check.ErrUnauthorized if the key is no longer valid, and with
// ErrUnknownCheck.
type Store interface {
	// Feedback returns the feedback on one of the account's checks, or nil. If e is not nil, it fails with an
	// *entity.InvalidError unless e is the checked entity.
	Feedback(ctx context.Context, c check.Caller, ref string, e *entity.Entity) (*Kept, error)
	// KeepFeedback stores a report in place of an earlier one on the same check, and makes it the account's vote on the
	// entity. If layers is nil, it keeps those of the earlier report.
	KeepFeedback(ctx context.Context, c check.Caller, r Report, layers []Layer) (*Kept, error)
	// RevokeFeedback deletes the feedback on a check. If the account reported the same entity before, its latest
	// remaining report is its vote again. RevokeFeedback succeeds if there is no feedback.
	RevokeFeedback(ctx context.Context, c check.Caller, ref string) error
}

// Scorer scores an entity without recording or counting it; *check.Checker implements it. Its errors are those of a
// check.
type Scorer interface {
	Rescore(ctx context.Context, c check.Caller, e entity.Entity) (*check.Record, error)
}

// Desk accepts feedback.
type Desk struct {
	Store  Store
	Scorer Scorer
}

// Give keeps a report. Repeating it has no further effect: the entity of a check is scored once at most. It returns an
// *entity.InvalidError, the errors of [Store] and those of [Scorer]; nothing is kept then.
func (d *Desk) Give(ctx context.Context, c check.Caller, r Report) (*Kept, error) {
	if err := r.Validate(); err != nil {
		return nil, err
	}
	kept, err := d.Store.Feedback(ctx, c, r.Ref, r.Entity)
	if err != nil {
		return nil, err
	}
	var layers []Layer
	if r.Entity != nil && (kept == nil || !kept.Scored) {
		scored, err := d.Scorer.Rescore(ctx, c, *r.Entity)
		if err != nil {
			return nil, err
		}
		layers = layersOf(scored.Decision)
	}
	return d.Store.KeepFeedback(ctx, c, r, layers)
}

// Revoke deletes the feedback on a check. It returns an *entity.InvalidError or an error of [Store].
func (d *Desk) Revoke(ctx context.Context, c check.Caller, ref string) error {
	if err := privacy.ValidateRef("ref", ref); err != nil {
		return err
	}
	return d.Store.RevokeFeedback(ctx, c, ref)
}

// layersOf returns the layers with a result.
func layersOf(d *check.Decision) []Layer {
	layers := []Layer{}
	for _, o := range d.Layers {
		if o.Failure != "" || o.Abstained {
			continue
		}
		l := Layer{Name: o.Layer, Version: o.Version, Score: o.Score, Signals: make([]string, len(o.Signals))}
		for i, s := range o.Signals {
			l.Signals[i] = s.Code
		}
		layers = append(layers, l)
	}
	return layers
}

// Tally counts the labels of the checks for which a layer raised a signal.
type Tally struct {
	Layer      string `json:"layer"`
	Version    string `json:"version"`
	Signal     string `json:"signal"` // its code
	Fraud      int    `json:"fraud"`
	Legitimate int    `json:"legitimate"`
}

// TallySignals counts the labels of each signal of each version of a layer, sorted by layer, version and signal.
func TallySignals(labelled []Labelled) []Tally {
	tallies := map[Tally]Tally{} // by themselves without counts
	for _, l := range labelled {
		for _, layer := range l.Layers {
			for _, signal := range slices.Compact(slices.Sorted(slices.Values(layer.Signals))) {
				of := Tally{Layer: layer.Name, Version: layer.Version, Signal: signal}
				t := cmp.Or(tallies[of], of)
				if l.Label == Fraud {
					t.Fraud++
				} else {
					t.Legitimate++
				}
				tallies[of] = t
			}
		}
	}
	list := slices.AppendSeq([]Tally{}, maps.Values(tallies))
	slices.SortFunc(list, func(a, b Tally) int {
		return cmp.Or(cmp.Compare(a.Layer, b.Layer), cmp.Compare(a.Version, b.Version), cmp.Compare(a.Signal, b.Signal))
	})
	return list
}

// CountScored returns the number of labels of values that a version of a layer scored.
func CountScored(labelled []Labelled, layer, version string) (n int) {
	for _, l := range labelled {
		if slices.ContainsFunc(l.Layers, func(l Layer) bool { return l.Name == layer && l.Version == version }) {
			n++
		}
	}
	return n
}
