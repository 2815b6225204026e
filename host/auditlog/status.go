package auditlog

import (
	"maps"
	"slices"
	"sync"
	"time"

	"assay/host/store"
)

// Status is what a keeper did last.
type Status struct {
	Signed   map[int]Checkpoint // the last checkpoint of each chain since the host started
	Problems []string           // why the last signing or pruning failed, or which chains they found damaged
}

// Checkpoint is a signed head of a tree.
type Checkpoint struct {
	Seq int64     // number of the last record that it covers
	At  time.Time // when it was signed
}

// The tasks of a keeper.
const (
	signing = iota
	pruning
	tasks
)

// status is the Status that a keeper updates.
type status struct {
	mu       sync.Mutex
	last     map[int]Checkpoint
	problems [tasks]string
}

// Status returns what the keeper did last. It is safe for concurrent use.
func (k *Keeper) Status() Status {
	k.status.mu.Lock()
	defer k.status.mu.Unlock()
	problems := slices.DeleteFunc(slices.Clone(k.status.problems[:]), func(p string) bool { return p == "" })
	return Status{Signed: maps.Clone(k.status.last), Problems: problems}
}

func (s *status) signed(chain int, seq int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.last == nil {
		s.last = map[int]Checkpoint{}
	}
	s.last[chain] = Checkpoint{seq, time.Now()}
}

// PrunedElsewhere forgets why this host's last pruning failed: another host has pruned since, and reports its findings.
func (k *Keeper) PrunedElsewhere() { k.status.ended(pruning, nil) }

// ended notes the error of a task's last run. It ignores database outages, which say nothing about the audit log.
func (s *status) ended(task int, err error) {
	if store.IsOutage(err) {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.problems[task] = ""
	if err != nil {
		s.problems[task] = err.Error()
	}
}
