package facts

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"
)

// The outcomes of a lookup: how a source answered a check.
const (
	answered   = iota
	pending    // it asks in the background
	unanswered // ErrUnanswered
	untrusted  // ErrUntrusted
	failed     // the check was refused
	outcomes
)

// Outcomes are the names of the outcomes of lookups.
var Outcomes = [outcomes]string{"answered", "pending", "unanswered", "untrusted", "failed"}

// ErrPending means that a third party is asked in the background, so that a later check has its answer. If too many
// questions wait, it may be a later check that asks.
var ErrPending = fmt.Errorf("%w: it is asked in the background", ErrUnanswered)

// Sources are judged by the lookups of the last judgedFor, JudgeInterval apart. Fewer than minLookups prove no fault.
const (
	JudgeInterval = 10 * time.Second
	judgedFor     = time.Minute
	minLookups    = 20
)

// health counts the lookups of a source.
type health struct {
	counts [outcomes]atomic.Uint64

	past   [judgedFor / JudgeInterval][outcomes]uint64 // the counts when it was judged, in a ring
	judged int
	fails  atomic.Bool
}

func (h *health) count(err error) {
	outcome := answered
	switch {
	case err == nil:
	case errors.Is(err, ErrPending):
		outcome = pending
	case errors.Is(err, ErrUntrusted):
		outcome = untrusted
	case errors.Is(err, ErrUnanswered):
		outcome = unanswered
	default:
		outcome = failed
	}
	h.counts[outcome].Add(1)
}

// judge reports whether the source fails: more than half of the lookups of the last minute that ended had no answer.
// Without lookups it still does what it did.
func (h *health) judge() (fails, changed bool) {
	slot := &h.past[h.judged%len(h.past)]
	h.judged++
	before := *slot
	var bad, all uint64
	for i := range h.counts {
		n := h.counts[i].Load()
		slot[i] = n
		if i != pending {
			all += n - before[i]
		}
		if i > pending {
			bad += n - before[i]
		}
	}
	fails = h.fails.Load()
	if most := 2*bad > all; most && all >= minLookups || !most && all > 0 {
		fails = most
	}
	return fails, h.fails.Swap(fails) != fails
}

// Judge looks for sources that fail, and logs when one begins or ends to. It is a maintenance job that never fails.
func (c *Collector) Judge(context.Context) error {
	for _, s := range c.sources {
		switch fails, changed := s.health.judge(); {
		case changed && fails:
			c.log.Error("more than half of the lookups fail", "source", s.Name())
		case changed:
			c.log.Info("lookups are answered again", "source", s.Name())
		}
	}
	return nil
}

// Failing returns a sentence for each source that Judge found to fail.
func (c *Collector) Failing() (sentences []string) {
	for _, s := range c.sources {
		if s.health.fails.Load() {
			sentences = append(sentences, "more than half of the lookups of "+s.Name()+" fail")
		}
	}
	return sentences
}

// Lookups returns the names of the sources, and how many lookups of one had an outcome, which is an index of Outcomes.
func (c *Collector) Lookups() (sources []string, count func(source, outcome int) uint64) {
	for _, s := range c.sources {
		sources = append(sources, s.Name())
	}
	return sources, func(source, outcome int) uint64 {
		return c.sources[source].health.counts[outcome].Load()
	}
}
