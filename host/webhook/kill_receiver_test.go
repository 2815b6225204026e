package webhook

import (
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// arrival is a request as a receiver saw it.
type arrival struct {
	number       int // of the attempt, as the request says
	at, answered time.Time
	status       int // 0: it was not answered
	life, ended  int // of the host, when it came and when it was answered
}

// witness is a receiver that remembers all that it gets.
type witness struct {
	*httptest.Server
	ear *ear

	mu       sync.Mutex
	arrivals map[string][]arrival
	refuses  map[string]int // requests of an event that are answered with 500 before one is with 200
	life     int            // which host lives
	secrets  []string       // those that the customer knows
	forged   int
	stalls   string        // a request with that reference is not answered
	stalled  chan struct{} // closed when it has come
}

func newWitness(t *testing.T) *witness {
	t.Helper()
	w := &witness{arrivals: map[string][]arrival{}, refuses: map[string]int{}}
	w.Server = httptest.NewUnstartedServer(http.HandlerFunc(w.serve))
	w.ear = &ear{Listener: w.Server.Listener}
	w.Server.Listener = w.ear
	w.Start()
	t.Cleanup(w.Close)
	return w
}

func (w *witness) serve(out http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return // its host was killed while it sent it
	}
	ref := r.Header.Get("webhook-id")
	number, _ := strconv.Atoi(r.Header.Get("X-Service-Attempt"))
	w.mu.Lock()
	signed := slices.ContainsFunc(w.secrets, func(secret string) bool {
		return slices.Contains(strings.Fields(r.Header.Get("webhook-signature")),
			standardSignature(secret, ref, r.Header.Get("webhook-timestamp"), body))
	})
	if !signed {
		w.forged++
	}
	n := len(w.arrivals[ref])
	w.arrivals[ref] = append(w.arrivals[ref], arrival{number: number, at: time.Now(), life: w.life})
	stall := ref == w.stalls
	if stall {
		w.stalls = ""
		close(w.stalled)
	}
	w.mu.Unlock()
	if stall {
		<-r.Context().Done() // until its host is killed
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	status := http.StatusOK
	if w.refuses[ref] > 0 {
		w.refuses[ref]--
		status = http.StatusInternalServerError
	}
	a := &w.arrivals[ref][n]
	a.answered, a.status, a.ended = time.Now(), status, w.life
	out.WriteHeader(status)
}

// stall leaves the next request of an event without an answer.
func (w *witness) stall(ref string) (stalled <-chan struct{}) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.stalls, w.stalled = ref, make(chan struct{})
	return w.stalled
}

// refuse has the next requests of an event refused, so many.
func (w *witness) refuse(ref string, times int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.refuses[ref] = times
}

func (w *witness) knows(secret string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.secrets = append(w.secrets, secret)
}

// nextLife says that the host was killed. Requests that were left alone are heard, and what comes now is another
// host's.
func (w *witness) nextLife() {
	w.ear.hear()
	w.mu.Lock()
	defer w.mu.Unlock()
	w.life++
	w.stalls = ""
}

// ear is a listener that can be deaf: connections come about, and nothing is read from them.
type ear struct {
	net.Listener

	mu   sync.Mutex
	deaf chan struct{} // closed when it hears again; nil: it hears
	came chan struct{} // closed when somebody has called in vain
}

func (e *ear) turnDeaf() (came <-chan struct{}) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.deaf, e.came = make(chan struct{}), make(chan struct{})
	return e.came
}

func (e *ear) hear() {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.deaf != nil {
		close(e.deaf)
		e.deaf = nil
	}
}

func (e *ear) Accept() (net.Conn, error) {
	conn, err := e.Listener.Accept()
	if err != nil {
		return nil, err
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.deaf == nil {
		return conn, nil
	}
	if e.came != nil {
		close(e.came)
		e.came = nil
	}
	return &unheard{conn, e.deaf}, nil
}

// unheard is a connection from which nothing is read for a while.
type unheard struct {
	net.Conn
	until <-chan struct{}
}

func (u *unheard) Read(b []byte) (int, error) {
	<-u.until
	return u.Conn.Read(b)
}
