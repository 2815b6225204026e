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
	pending    // the source asks in the background
	unanswered // ErrUnanswered
	untrusted  // ErrUntrusted
	failed     // the check was refused
	outcomes
)

// Outcomes are the names of the outcomes of lookups.
var Outcomes = [outcomes]string{"answered", "pending", "unanswered", "untrusted", "failed"}

// ErrPending means that a third party is being asked in the background, so that a later check has its answer. If too
// many questions are waiting, only a later check may ask it.
var ErrPending = fmt.Errorf("%w: it is asked in the background", ErrUnanswered)

// Sources are judged every JudgeInterval by their lookups of the last judgedFor. Fewer than minLookups prove nothing.
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

// judge reports whether the source is failing: more than half of the lookups that ended in the last minute had no
// answer. If there are too few lookups to tell, the result stays the same.
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

// Judge looks for failing sources, and logs when one starts or stops failing. It is a maintenance job that never fails.
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

// Failing returns a sentence for each source that Judge found failing.
func (c *Collector) Failing() (sentences []string) {
	for _, s := range c.sources {
		if s.health.fails.Load() {
			sentences = append(sentences, "more than half of the lookups of "+s.Name()+" fail")
		}
	}
	return sentences
}

// Lookups returns the names of the sources, and a function that counts lookups by the indices of source and outcome.
func (c *Collector) Lookups() (sources []string, count func(source, outcome int) uint64) {
	for _, s := range c.sources {
		sources = append(sources, s.Name())
	}
	return sources, func(source, outcome int) uint64 {
		return c.sources[source].health.counts[outcome].Load()
	}
}
