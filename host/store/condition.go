package store

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"github.com/uptrace/bun"

	"assay/host/check"
	"assay/host/internal/maintenance"
)

// Problem is a reason why checks cannot be recorded at the moment.
type Problem struct {
	Part   string // "database", "clock" or "audit"
	Reason string // for clients
	Err    error  // the cause, for the log; may be nil
}

// condition is the result of the last probe.
type condition struct {
	database *Problem // nil: the database can record checks
	clock    *Problem // nil: the host's clock is right
}

// clockReading is a time of the database and the host's time at that moment, which has a monotonic reading.
type clockReading struct{ database, host time.Time }

// latest is the state of data that hosts follow, as of a probe. While nothing has changed, it answers their polls
// without a query. Notifications, which arrive sooner, discard it.
type latest struct {
	At         time.Time
	Activation int64  // the id of the last one
	Override   int64  // the number of the last change
	Candidates int    // number of open ones
	Lists      string // a digest of their rows
}

// unchanged returns what a recent probe saw, or nil. Without Watch it returns nil, because a command must see data that
// was stored just before.
func (s *Store) unchanged() *latest {
	if l := s.watched.latest.Load(); s.watched.watching.Load() && l != nil && time.Since(l.At) < 2*probeInterval {
		return l
	}
	return nil
}

// Turn returns how long a host waits so that all hosts together poll once in d: they take turns. With more than ten
// hosts they poll more often, so that none waits too long.
func (s *Store) Turn(d time.Duration) time.Duration {
	return d * time.Duration(min(max(1, s.watched.alive.Load()), 10))
}

// watched is the last known state of a store's database.
type watched struct {
	condition atomic.Pointer[condition]    // nil: not probed yet
	clock     atomic.Pointer[clockReading] // nil: not read yet
	latest    atomic.Pointer[latest]       // nil: not probed yet, or changed since
	watching  atomic.Bool                  // Watch runs
	alive     atomic.Int64                 // hosts, as of this host's last beat
	full      atomic.Bool                  // the last batch failed because the disk was full
	lost      atomic.Bool                  // answered records are lost, see Ledger.Guard
}

const (
	probeInterval  = time.Second
	retryInterval  = 250 * time.Millisecond // between probes while there is a problem
	probeTimeout   = time.Second
	clockReadings  = 3 // if the first one looks wrong
	maxClockOffset = 2 * time.Second
)

// time returns the time by the database's clock as of the last probe, advanced by the host's monotonic clock, so that
// all hosts agree on what has expired. Before the first probe it returns the host's time.
func (s *Store) time() time.Time {
	if c := s.watched.clock.Load(); c != nil {
		return c.database.Add(time.Since(c.host))
	}
	return s.hostNow()
}

// Watch probes the database until ctx ends.
func (s *Store) Watch(ctx context.Context) {
	s.watched.watching.Store(true)
	defer s.watched.watching.Store(false)
	for ctx.Err() == nil {
		wait := probeInterval
		if s.Probe(ctx); len(s.Problems()) > 0 {
			wait = retryInterval
		}
		maintenance.Pause(ctx, wait)
	}
}

// Problems returns the problems that the last probe and the last batch found.
func (s *Store) Problems() []Problem {
	c := s.watched.condition.Load()
	if c == nil {
		return []Problem{{Part: "database", Reason: "was not probed yet"}}
	}
	var problems []Problem
	switch {
	case c.database != nil:
		problems = append(problems, *c.database)
	case s.watched.full.Load():
		problems = append(problems, Problem{Part: "database", Reason: "is out of space"})
	}
	if c.clock != nil {
		problems = append(problems, *c.clock)
	}
	if s.watched.lost.Load() {
		problems = append(problems, Problem{Part: "audit", Reason: "has lost records that were answered",
			Err: errRecordsLost})
	}
	return problems
}

// clockError returns an error if the host's clock is wrong, or was set since the last probe. The times of checks are
// hashed, so they cannot be corrected later.
func (s *Store) clockError() error {
	c := s.watched.condition.Load()
	switch {
	case c != nil && c.clock != nil:
		return &check.UnavailableError{Part: "clock", Err: errors.New("the host's clock " + c.clock.Reason)}
	case s.hostNow().Sub(s.time()).Abs() > maxClockOffset+probeTimeout:
		return &check.UnavailableError{Part: "clock", Err: errors.New("the host's clock was set a moment ago")}
	}
	return nil
}

// earliest returns the earlier of the host's and the database's time, so that one fast clock deletes nothing too soon.
func (s *Store) earliest() time.Time {
	return slices.MinFunc([]time.Time{s.hostNow(), s.now()}, time.Time.Compare)
}

// batchEnded notes whether a batch failed because the disk was full, which a probe that only reads would not notice.
func (s *Store) batchEnded(err error) {
	switch {
	case err == nil:
		s.watched.full.Store(false)
	case sqlState(err) == diskFull:
		s.watched.full.Store(true)
	}
}

// Probe tests whether the database can record checks, and reads its clock. Problems returns the result.
func (s *Store) Probe(ctx context.Context) {
	bounded, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	found, err := s.probe(bounded)
	if err != nil { // an idle connection may have died
		found, err = s.probe(bounded)
	}
	before := s.watched.condition.Load()
	switch {
	case ctx.Err() != nil:
		return
	case err != nil:
		dropIdle(s.db)
		found.database = &Problem{Part: "database", Reason: "does not respond", Err: err}
		if before != nil {
			found.clock = before.clock
		}
	}
	s.watched.condition.Store(&found)
	before = cmp.Or(before, &condition{})
	s.logChange(before.database, found.database)
	s.logChange(before.clock, found.clock)
}

// logChange logs that a problem has begun or ended.
func (s *Store) logChange(before, after *Problem) {
	switch {
	case after != nil && (before == nil || before.Reason != after.Reason):
		s.log.Warn("checks are not recorded", "part", after.Part, "reason", after.Reason, "error", after.Err)
	case after == nil && before != nil:
		s.log.Info("a problem has ended", "part", before.Part, "reason", before.Reason)
	}
}

func (s *Store) probe(ctx context.Context) (found condition, err error) {
	conn, err := s.db.Conn(ctx)
	if err != nil {
		return found, err
	}
	defer conn.Close()
	var state struct {
		Standby, ReadOnly bool
		Schema            string
		latest
	}
	var readings []clockOffset
	for len(readings) == 0 || len(readings) < clockReadings && clockProblem(readings) != nil {
		before := s.hostNow()
		if err := query(conn, "probe").Scan(ctx, &state); err != nil {
			return found, err
		}
		s.watched.clock.Store(&clockReading{state.At, time.Now()})
		readings = append(readings, newClockOffset(before, state.At, s.hostNow()))
	}
	state.At = time.Now()
	s.watched.latest.Store(&state.latest)
	found.clock = clockProblem(readings)
	problem := func(reason string) { found.database = &Problem{Part: "database", Reason: reason} }
	switch {
	case state.Standby:
		problem("is a standby")
	case state.ReadOnly:
		problem("is read-only")
	case state.Schema < s.schema:
		problem("has an older schema, migration " + state.Schema)
	case s.watched.full.Load() && extend(ctx, conn) == nil:
		s.watched.full.Store(false)
	}
	return found, nil
}

// extend takes another page of disk space. It fails if there is none left.
func extend(ctx context.Context, conn bun.Conn) error {
	_, err := conn.ExecContext(ctx, `CREATE TEMPORARY TABLE assay_probe ON COMMIT DROP AS SELECT 1 AS page`)
	return err
}

// clockOffset is how far the host's clock is ahead of the database's, and how much of that may be due to the time that
// reading both took.
type clockOffset struct{ ahead, uncertain time.Duration }

// newClockOffset compares a time of the database with the host's times before and after reading it.
func newClockOffset(before, database, after time.Time) clockOffset {
	took := max(0, after.Sub(before))
	return clockOffset{ahead: before.Add(took / 2).Sub(database), uncertain: took / 2}
}

// clockProblem judges the median of several readings, so that one pause of a process changes nothing.
func clockProblem(readings []clockOffset) *Problem {
	slices.SortFunc(readings, func(a, b clockOffset) int { return int(a.ahead - b.ahead) })
	median := readings[len(readings)/2]
	direction := "ahead of"
	if median.ahead < 0 {
		direction = "behind"
	}
	off := median.ahead.Abs()
	if off <= maxClockOffset+median.uncertain {
		return nil
	}
	return &Problem{Part: "clock", Reason: fmt.Sprintf("is %.1f s %s the database's", off.Seconds(), direction)}
}
