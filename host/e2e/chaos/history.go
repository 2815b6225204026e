// Package chaos compares clients' observations with the content of the database, after faults. The comparison shares no
// code with the ledger: it computes keyed hashes and the hash chain itself, as host/audit documents them.
package chaos

import (
	"sync"
	"time"
)

// Call is a request for one or more checks, as its client saw it.
type Call struct {
	Account string
	Key     string // id of the key
	Host    int    // number of the host that was asked
	Items   []Item

	Began, Ended time.Time
	Status       int // 0: no answer
	Ref          string
	RetryAfter   bool     // the answer had the header
	Results      []Result // for status 200, one for each item
}

// unknown reports whether the client cannot know if the checks were recorded.
func (c *Call) unknown() bool { return c.Status == 0 || c.Status == 500 }

// Item is an entity to check. Value is normalised.
type Item struct {
	Type, Value string
	Parents     []Node // in the reputation graph
}

// Node is a node of the reputation graph.
type Node struct{ Kind, Value string }

// Result is the answer to one check.
type Result struct {
	Score     int    `json:"score"`
	Verdict   string `json:"verdict"`
	Type      string `json:"type"`
	Query     string `json:"query"`
	Timestamp string `json:"timestamp"`
	Ref       string `json:"ref"`
}

// Erasure is a request to erase an account's data about an entity.
type Erasure struct {
	Account, Type, Value string
	Began, Ended         time.Time
	Done                 bool // the client got status 200
}

// Revocation is the revocation of a key. Done is when the client knew it, or zero.
type Revocation struct {
	Key         string
	Began, Done time.Time
	// Rotated is when a rotation was begun that revokes the key after a while, by the clock of each host. It is zero if
	// the key was revoked at once.
	Rotated time.Time
}

// Delivery is a webhook request as the receiver saw it.
type Delivery struct {
	Account, Ref, Event string
	Sequence            int64
	Body                string
	Signed              bool // the signature is valid
}

// History records the observations of clients and receivers. Its methods may be called concurrently.
type History struct {
	WrongClock map[int]bool // numbers of the hosts whose clock may be wrong

	mu          sync.Mutex
	Calls       []*Call
	Erasures    []Erasure
	Revocations []Revocation
	Deliveries  []Delivery
}

// Add adds what was observed to one of the history's lists.
func Add[T any](h *History, to *[]T, observed T) {
	h.mu.Lock()
	defer h.mu.Unlock()
	*to = append(*to, observed)
}

// Since returns the calls that ended at a time or later.
func (h *History) Since(t time.Time) (calls []*Call) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, c := range h.Calls {
		if !c.Ended.Before(t) {
			calls = append(calls, c)
		}
	}
	return calls
}

// Count returns how many calls got a status.
func (h *History) Count(status int) (n int) {
	for _, c := range h.Since(time.Time{}) {
		if c.Status == status {
			n++
		}
	}
	return n
}
