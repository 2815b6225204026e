package privacy

import (
	"errors"
	"fmt"
	"time"

	"assay/host/entity"
)

// AtOnce is the maximum number of a subject's checks that are exported or erased within the request. Larger requests
// run in the background.
const AtOnce = 1000

const (
	// KeepExport is the time for which a finished export can be downloaded.
	KeepExport = 24 * time.Hour
	// KeepRequest is the time for which the state of a finished request can be read.
	KeepRequest = 30 * 24 * time.Hour
)

var (
	// ErrUnknownRequest means that the account made no such request, or that it is no longer kept.
	ErrUnknownRequest = errors.New("there is no such privacy request")
	// ErrNoExport means that a request has no export to download.
	ErrNoExport = errors.New("this request has no export: it is still running, or the export was deleted")
)

// LargeError means that a subject has too many checks to be erased at once.
type LargeError struct{}

func (LargeError) Error() string {
	return fmt.Sprintf("the subject has more than %d checks, so its data is erased in the background", AtOnce)
}

// Kind is the kind of a background request.
type Kind string

// The kinds of requests.
const (
	KindExport  Kind = "export"
	KindErasure Kind = "erasure"
)

// State is the state of a request in the background.
type State string

// The states of a request. An export is deleted after [KeepExport], or when its subject is erased.
const (
	StateRunning State = "running"
	StateDone    State = "done"
	StateFailed  State = "failed" // the key that made the request is no longer valid
	StateDeleted State = "deleted"
)

// Request is an export or an erasure that runs in the background. It does not name the subject, because it outlives the
// subject's data.
type Request struct {
	ID        string `json:"id"` // "req_..."
	Kind      Kind   `json:"kind"`
	State     State  `json:"state"`
	Total     int    `json:"total"` // the subject's checks when the request was made
	Done      int    `json:"done"`  // checks exported or erased so far; includes those made meanwhile
	CreatedAt Time   `json:"created_at"`
	SettledAt *Time  `json:"settled_at"` // null while the request is running
	ExpiresAt *Time  `json:"expires_at"` // of the export; null if there is none
}

// NewRequest returns a request with the expiry that follows from its other fields.
func NewRequest(r Request) *Request {
	if r.Kind == KindExport && r.State == StateDone && r.SettledAt != nil {
		r.ExpiresAt = &Time{r.SettledAt.Add(KeepExport)}
	}
	return &r
}

// ValidateRequestID validates the syntax of a request's id. The error is an *entity.InvalidError.
func ValidateRequestID(text string) error {
	return entity.ValidateID("id", text, "req_", "id of a privacy request")
}

// How long data is kept (contract section 8). The privacy page shows these numbers.
const (
	AuditMonths  = 12 // audit records
	PayloadHours = 72 // the payload of a failed event, from its check
	EventDays    = 30 // the rest of an event, from its delivery or failure
	GraphDays    = 90 // contributions to the reputation graph
	LogDays      = 30 // request logs
)
