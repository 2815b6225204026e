// Package fleet knows the hosts that share a database, and puts a lineup in force on all of them in two phases: each
// host prepares it and reports so, then one commit puts it in force, and each host reports when it runs it.
package fleet

import (
	"bytes"
	"context"
	"encoding/json"
	"log/slog"
	"sync/atomic"
	"time"
)

// Interval is how often a host reports that it is alive. After SilentAfter without a report, the others stop waiting
// for it.
const (
	Interval    = 2 * time.Second
	SilentAfter = 10 * time.Second
)

// reportInterval is the minimum time between stored reports of a host's shadow layers.
const reportInterval = 10 * time.Second

// Host is a host as its database knows it.
type Host struct {
	ID        string        `json:"id"`   // of the process
	Name      string        `json:"name"` // for operators: its machine and port
	StartedAt time.Time     `json:"started_at"`
	Unseen    time.Duration `json:"unseen_ns"` // since it was last seen, by the database's clock
	State
}

// Silent reports whether the host is no longer waited for, because it was stopped or killed, or its connection was cut.
func (h Host) Silent() bool { return h.Unseen > SilentAfter }

// State describes the lineup that a host runs.
type State struct {
	Activation int64  `json:"activation"` // the number of the activation that it runs; 0: none
	Revision   int64  `json:"revision"`   // of its lineup
	Refused    int64  `json:"refused,omitempty"`
	Problem    string `json:"problem,omitempty"` // why the host cannot run activation Refused
	Canary     string `json:"canary,omitempty"`  // effect of the canary on this host's checks, in words
}

// Candidate is a lineup that hosts are asked to prepare, or only to measure. It has either Signed or Document.
type Candidate struct {
	ID       string
	Signed   string // an activation to prepare or a lineup to measure, see activation.SignCandidate and SignMeasurement
	Document string // the canonical text of a lineup to measure that has no layers but those in force
}

// Progress is a host's progress with a candidate.
type Progress string

// The progress of a candidate is Loading, then Ready or Refused.
const (
	Loading Progress = "loading"
	Ready   Progress = "ready"
	Refused Progress = "refused"
)

// Answer is a host's answer about a candidate.
type Answer struct {
	Candidate string          // its ID
	Host      string          // the host's ID
	Progress  Progress        // of the host
	Reason    string          // why it refused
	Report    json.RawMessage // the changes that the candidate would make on the host; nil: not measured
}

// Roster stores the hosts.
type Roster interface {
	// BeatHost records that a host is alive, and its state. It returns the number of hosts that are not silent.
	BeatHost(ctx context.Context, id, name string, s State) (alive int, err error)
	// ReportShadow stores the changes that a live host's shadow layers would have made.
	ReportShadow(ctx context.Context, id string, report json.RawMessage) error
	// RemoveHost records that a host has stopped.
	RemoveHost(ctx context.Context, id string) error
}

// Pulse keeps a host's place in the roster.
type Pulse struct {
	Roster   Roster
	ID, Name string
	State    func() State
	Log      *slog.Logger
	Changed  <-chan struct{} // receives a value when State changes
	// Shadow returns the changes that the host's shadow layers would have made, or nil if there are none. It may be
	// nil.
	Shadow func() (json.RawMessage, error)

	alive    atomic.Int64
	stored   json.RawMessage // the last report that was stored
	storedAt time.Time       // when a report was last stored, or could not be
}

const beatTimeout = Interval

// Alive returns how many hosts were alive at the last beat; 0 before the first one.
func (p *Pulse) Alive() int { return int(p.alive.Load()) }

// beat completes even if ctx ends meanwhile: the database could store an abandoned beat after the host was removed.
func (p *Pulse) beat(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), beatTimeout)
	defer cancel()
	alive, err := p.Roster.BeatHost(ctx, p.ID, p.Name, p.State())
	if err == nil {
		p.alive.Store(int64(alive))
	}
	return err
}

// Run reports that the host is alive until ctx ends, and then that it has stopped.
func (p *Pulse) Run(ctx context.Context) {
	tick := time.NewTicker(Interval)
	defer tick.Stop()
	failing := false
	for {
		err := p.beat(ctx)
		if err != nil && !failing && ctx.Err() == nil {
			p.Log.Warn("other hosts may take this one for silent", "error", err)
		}
		failing = err != nil
		if err == nil && p.Shadow != nil {
			if err := p.reportShadow(ctx); err != nil && ctx.Err() == nil {
				p.Log.Warn("storing what shadow layers found failed", "error", err)
			}
		}
		select {
		case <-ctx.Done():
			bounded, cancel := context.WithTimeout(context.WithoutCancel(ctx), beatTimeout)
			defer cancel()
			if err := p.Roster.RemoveHost(bounded, p.ID); err != nil {
				p.Log.Warn("other hosts will take this one for silent", "error", err)
			}
			return
		case <-tick.C:
		case <-p.Changed:
		}
	}
}

// reportShadow stores the shadow layers' report when it is due, if it has changed.
func (p *Pulse) reportShadow(ctx context.Context) error {
	if time.Since(p.storedAt) < reportInterval {
		return nil
	}
	report, err := p.Shadow()
	if err != nil || bytes.Equal(report, p.stored) {
		return err
	}
	p.storedAt = time.Now()
	ctx, cancel := context.WithTimeout(ctx, beatTimeout)
	defer cancel()
	if err := p.Roster.ReportShadow(ctx, p.ID, report); err != nil {
		return err
	}
	p.stored = report
	return nil
}
