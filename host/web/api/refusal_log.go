package api

import (
	"context"
	"log/slog"
	"sync"
	"time"
)

// refusals limits the access log's lines about requests with 503: the first of a kind gets a line at once, and then one
// line a second has the number of the others. Otherwise an outage or a burst would write thousands of lines a second.
type refusals struct {
	log *slog.Logger

	mu    sync.Mutex
	kinds map[refusalKind]*suppressed // with refusals in the last second
}

// refusalKind has few values: routes are endpoints, and reasons metric labels.
type refusalKind struct{ route, reason string }

// suppressed counts the refusals of a kind since its last line.
type suppressed struct {
	n     int
	timer *time.Timer
}

// suppressFor is the time between two lines about the same kind.
const suppressFor = time.Second

// admit reports whether a refusal gets a line of its own, and counts it otherwise.
func (r *refusals) admit(kind refusalKind) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if s := r.kinds[kind]; s != nil {
		s.n++
		return false
	}
	r.kinds[kind] = &suppressed{timer: time.AfterFunc(suppressFor, func() { r.report(kind) })}
	return true
}

// report writes a line with the number of suppressed ones. After a second without any it forgets the kind.
func (r *refusals) report(kind refusalKind) {
	r.mu.Lock()
	defer r.mu.Unlock()
	s := r.kinds[kind]
	if s == nil {
		return
	}
	if s.n == 0 {
		delete(r.kinds, kind)
		return
	}
	r.log.LogAttrs(context.Background(), slog.LevelWarn, "requests refused", slog.String("route", kind.route),
		slog.Int("status", 503), slog.String("reason", kind.reason), slog.Int("suppressed", s.n))
	s.n = 0
	s.timer.Reset(suppressFor)
}

// close writes the remaining lines and stops the timers.
func (r *refusals) close() {
	r.mu.Lock()
	kinds := make([]refusalKind, 0, len(r.kinds))
	for kind, s := range r.kinds {
		s.timer.Stop()
		kinds = append(kinds, kind)
	}
	r.mu.Unlock()
	for _, kind := range kinds {
		r.report(kind)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, s := range r.kinds {
		s.timer.Stop()
	}
}
