package fleet

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/oklog/ulid/v2"
)

// Store is the part of the database that a rollout needs.
type Store interface {
	// Hosts lists the hosts by name.
	Hosts(ctx context.Context) ([]Host, error)
	// Propose asks the hosts to prepare a candidate, until it expires.
	Propose(ctx context.Context, c Candidate) error
	// ExtendCandidate postpones the candidate's expiry.
	ExtendCandidate(ctx context.Context, id string) error
	// WithdrawCandidate ends a candidate.
	WithdrawCandidate(ctx context.Context, id string) error
	Answers(ctx context.Context, candidate string) ([]Answer, error)
}

// Rollout puts a lineup in force on all hosts.
type Rollout struct {
	Store Store
	// Observe is called for each host that has made progress, or is silent and therefore skipped. It may be nil.
	Observe func(Event)

	reported map[string]string // last passed to Observe, by host
}

// Event is the progress of a host.
type Event struct {
	Host   Host
	What   string // such as "ready"
	Reason string // why not
}

const (
	rolloutInterval = 50 * time.Millisecond // between checks of the hosts
	extendInterval  = 2 * time.Second
)

// NotEverywhereError lists the hosts that do not prepare or run a lineup, with their reasons.
type NotEverywhereError struct {
	Failed []Event
}

func (e *NotEverywhereError) Error() string {
	lines := make([]string, len(e.Failed))
	for i, f := range e.Failed {
		lines[i] = fmt.Sprintf("host %s %s: %s", f.Host.Name, f.What, f.Reason)
	}
	return strings.Join(lines, "\n")
}

// Proposal is a candidate that every live host has prepared. The hosts keep it ready until it is closed.
type Proposal struct {
	Answers []Answer // of the live hosts

	rollout *Rollout
	id      string
	stop    context.CancelFunc
	kept    chan struct{}
}

// Prepare asks every live host to prepare a candidate, whose ID it sets, and waits until each of them has. It returns a
// *NotEverywhereError if a host refuses. Without live hosts it returns at once.
func (r *Rollout) Prepare(ctx context.Context, c Candidate) (p *Proposal, err error) {
	c.ID = "cand_" + ulid.Make().String()
	if err := r.Store.Propose(ctx, c); err != nil {
		return nil, err
	}
	keeping, stop := context.WithCancel(context.WithoutCancel(ctx))
	p = &Proposal{rollout: r, id: c.ID, stop: stop, kept: make(chan struct{})}
	go p.keep(keeping)
	defer func() {
		if err != nil {
			err = errors.Join(err, p.Close())
			p = nil
		}
	}()
	for {
		done, err := r.prepared(ctx, p)
		if done || err != nil {
			return p, err
		}
		if err := pause(ctx, rolloutInterval); err != nil {
			return p, err
		}
	}
}

// prepared reports whether every live host has prepared the candidate.
func (r *Rollout) prepared(ctx context.Context, p *Proposal) (done bool, err error) {
	hosts, err := r.Store.Hosts(ctx)
	if err != nil {
		return false, err
	}
	answers, err := r.Store.Answers(ctx, p.id)
	if err != nil {
		return false, err
	}
	byHost := map[string]Answer{}
	for _, a := range answers {
		byHost[a.Host] = a
	}
	done = true
	var failed []Event
	p.Answers = nil
	for _, h := range hosts {
		a, answered := byHost[h.ID]
		switch {
		case answered && a.Progress == Refused:
			failed = append(failed, r.observe(Event{h, string(Refused), a.Reason}))
		case h.Silent():
			r.skip(h)
		case answered:
			r.observe(Event{Host: h, What: string(a.Progress)})
			p.Answers = append(p.Answers, a)
			done = done && a.Progress == Ready
		default:
			done = false
		}
	}
	if failed != nil {
		return false, &NotEverywhereError{failed}
	}
	return done, nil
}

// Await waits until every live host runs an activation, and returns these hosts. It returns a *NotEverywhereError, with
// the hosts that do, if others cannot or run a later one already.
func (r *Rollout) Await(ctx context.Context, number int64) (running []Host, err error) {
	for {
		hosts, err := r.Store.Hosts(ctx)
		if err != nil {
			return nil, err
		}
		running = nil
		waiting := false
		var failed []Event
		for _, h := range hosts {
			switch {
			case h.Silent():
				r.skip(h)
			case h.Activation > number:
				failed = append(failed, r.observe(Event{h, "moved on",
					fmt.Sprintf("activation %d is in force by now", h.Activation)}))
			case h.Activation == number:
				r.observe(Event{Host: h, What: "switched"})
				running = append(running, h)
			case h.Refused >= number:
				failed = append(failed, r.observe(Event{h, "did not switch", h.Problem}))
			default:
				waiting = true
			}
		}
		if !waiting && failed != nil {
			return running, &NotEverywhereError{failed}
		}
		if !waiting {
			return running, nil
		}
		if err := pause(ctx, rolloutInterval); err != nil {
			return running, err
		}
	}
}

// Silent lists the names of silent hosts among hosts.
func Silent(hosts []Host) (names []string) {
	for _, h := range hosts {
		if h.Silent() {
			names = append(names, h.Name)
		}
	}
	return names
}

func (r *Rollout) skip(h Host) {
	r.observe(Event{Host: h, What: "skipped", Reason: fmt.Sprintf("silent for %v", h.Unseen.Round(time.Second))})
}

// observe calls Observe if the host has made progress. It returns the event.
func (r *Rollout) observe(e Event) Event {
	if r.reported == nil {
		r.reported = map[string]string{}
	}
	if r.reported[e.Host.ID] != e.What && r.Observe != nil {
		r.Observe(e)
	}
	r.reported[e.Host.ID] = e.What
	return e
}

func pause(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(d):
		return nil
	}
}

// keep extends the candidate until ctx ends. If the command is killed, the candidate expires and hosts forget it.
func (p *Proposal) keep(ctx context.Context) {
	defer close(p.kept)
	for pause(ctx, extendInterval) == nil {
		_ = p.rollout.Store.ExtendCandidate(ctx, p.id) // tried again before it expires
	}
}

const withdrawTimeout = 5 * time.Second

// Close ends the candidate. Hosts release it unless it is in force.
func (p *Proposal) Close() error {
	p.stop()
	<-p.kept
	ctx, cancel := context.WithTimeout(context.Background(), withdrawTimeout)
	defer cancel()
	return p.rollout.Store.WithdrawCandidate(ctx, p.id)
}
