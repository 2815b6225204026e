package webhook_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"assay/host/check"
	"assay/host/customer/webhook"
	"assay/host/entity"
	"assay/host/store"
	"assay/host/store/storetest"
	"assay/registry/expect"
)

// hostDatabase is an environment variable. If set, the test binary runs as a host on the database with that URL.
const hostDatabase = "ASSAY_TEST_HOST_DATABASE"

// runHost runs a host without its HTTP server: a deployment that executes the commands on its standard input, one a
// line, and prints "done" after each. It returns the exit status.
func runHost(url string) int {
	fail := func(err error) int { fmt.Fprintln(os.Stderr, "host:", err); return 1 }
	ctx := context.Background()
	d, _, err := start(ctx, url)
	if err != nil {
		return fail(err)
	}
	fmt.Println("done")
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		var err error
		switch command := strings.Fields(lines.Text()); command[0] {
		case "check":
			plan, _ := check.PlanNamed("pro")
			err = d.block(ctx, check.Caller{Account: command[1], Key: command[2], Plan: plan}, command[3])
		case "resend":
			err = d.store.ResendEvent(ctx, command[1], command[2])
		case "rotate":
			_, err = d.store.RotateSecret(ctx, command[1], webhook.SecretOverlap)
		}
		if err != nil {
			return fail(err)
		}
		fmt.Println("done")
	}
	return 0 // the test has ended
}

// hostProcess is a host that runs in a process of its own.
type hostProcess struct {
	cmd    *exec.Cmd
	stdin  io.Writer
	stdout chan string // lines; closed when the process ends
}

func startHostProcess(t *testing.T, url string) *hostProcess {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), hostDatabase+"="+url)
	cmd.Stderr = t.Output()
	stdin, out := expect.Value(cmd.StdinPipe())(t), expect.Value(cmd.StdoutPipe())(t)
	expect.NoError(t, cmd.Start())
	h := &hostProcess{cmd: cmd, stdin: stdin, stdout: make(chan string, 100)}
	go func() {
		defer close(h.stdout)
		for lines := bufio.NewScanner(out); lines.Scan(); {
			h.stdout <- lines.Text()
		}
	}()
	t.Cleanup(h.kill)
	return h
}

// start sends a command to the host without waiting for its completion.
func (h *hostProcess) start(t *testing.T, words ...string) {
	t.Helper()
	expect.Value(fmt.Fprintln(h.stdin, strings.Join(words, " ")))(t)
}

// await waits until the host has started, or has completed a command.
func (h *hostProcess) await(t *testing.T) {
	t.Helper()
	_, ok := <-h.stdout
	expect.Must(t, ok, "the host ended unexpectedly")
}

// kill ends the host with SIGKILL.
func (h *hostProcess) kill() {
	_ = h.cmd.Process.Kill()
	for range h.stdout {
	}
	_ = h.cmd.Wait()
}

// deployment is a ledger that records checks and the Deliverer of their events, on one database.
type deployment struct {
	store  *store.Store
	ledger *store.Ledger
}

// start starts a deployment that may call receivers on loopback.
func start(ctx context.Context, url string) (d *deployment, stop func() error, err error) {
	s, err := openStore(ctx, url)
	if err != nil {
		return nil, nil, err
	}
	outbox, err := s.NewOutbox()
	if err != nil {
		return nil, nil, err
	}
	loopback := netip.MustParsePrefix("127.0.0.0/8")
	deliverer, err := webhook.New(webhook.Config{Outbox: outbox, Allow: []netip.Prefix{loopback},
		Logger: storetest.Discard()})
	if err != nil {
		return nil, nil, err
	}
	ledger, err := s.NewLedger(store.LedgerConfig{Patience: time.Minute, Settling: time.Minute, Late: time.Minute,
		OnEvents: deliverer.Hint})
	if err != nil {
		return nil, nil, err
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	stopped := make(chan struct{})
	go func() { defer close(stopped); deliverer.Run(ctx) }()
	return &deployment{s, ledger}, func() error {
		cancel()
		<-stopped
		return errors.Join(ledger.Close(), outbox.Close(), s.Close())
	}, nil
}

// block records a check that triggers an event.
func (d *deployment) block(ctx context.Context, caller check.Caller, ref string) error {
	e, err := entity.Parse(entity.Domain, "example.org", "")
	if err != nil {
		return err
	}
	r := storetest.At(storetest.Decided(caller, e, check.Block), time.Now().UTC().Truncate(time.Millisecond))
	r.Decision.Ref = ref
	return d.ledger.Append(ctx, r)
}

func TestMain(m *testing.M) {
	if url := os.Getenv(hostDatabase); url != "" {
		os.Exit(runHost(url))
	}
	// Nothing listens there, so a request that used the environment's proxy would fail.
	for _, name := range []string{"HTTP_PROXY", "HTTPS_PROXY", "http_proxy", "https_proxy", "ALL_PROXY"} {
		os.Setenv(name, "http://127.0.0.1:1")
	}
	os.Exit(storetest.Main(m, openStore))
}

// openStore opens a store on the database at url.
func openStore(ctx context.Context, url string) (*store.Store, error) {
	return store.Open(ctx, store.Config{URL: url, Keys: storetest.Ring, Logger: storetest.Discard()})
}

// receiver is a webhook receiver that records all requests.
type receiver struct {
	*httptest.Server

	mu       sync.Mutex
	arrivals map[string]int // requests by event
	refusals map[string]int // by event, how many of its next requests get status 500
	secrets  []string       // known to the customer
	forged   int            // requests without a valid signature
	stallRef string         // the next request of this event gets no response
	stalled  chan struct{}  // closed when that request has arrived
}

func newReceiver(t *testing.T) *receiver {
	t.Helper()
	r := &receiver{arrivals: map[string]int{}, refusals: map[string]int{}}
	r.Server = httptest.NewServer(http.HandlerFunc(r.serve))
	t.Cleanup(r.Close)
	return r
}

func (r *receiver) serve(w http.ResponseWriter, request *http.Request) {
	body, err := io.ReadAll(request.Body)
	if err != nil {
		return // the host was killed while it sent the body
	}
	ref := request.Header.Get("webhook-id")
	r.mu.Lock()
	signed := slices.ContainsFunc(r.secrets, func(secret string) bool {
		return slices.Contains(strings.Fields(request.Header.Get("webhook-signature")),
			webhook.StandardSignature(secret, ref, request.Header.Get("webhook-timestamp"), body))
	})
	if !signed {
		r.forged++
	}
	r.arrivals[ref]++
	stall := ref == r.stallRef
	if stall {
		r.stallRef = ""
		close(r.stalled)
	}
	r.mu.Unlock()
	if stall {
		<-request.Context().Done() // until the host is killed
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	status := http.StatusOK
	if r.refusals[ref] > 0 {
		r.refusals[ref]--
		status = http.StatusInternalServerError
	}
	w.WriteHeader(status)
}

// with changes a receiver.
func (r *receiver) with(change func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	change()
}

// stall leaves the next request of an event without a response.
func (r *receiver) stall(ref string) (stalled <-chan struct{}) {
	r.with(func() { r.stallRef, r.stalled = ref, make(chan struct{}) })
	return r.stalled
}

// refuse refuses the next requests of an event, so many at least and at most.
func (r *receiver) refuse(ref string, least, most int) {
	r.with(func() { r.refusals[ref] = min(max(r.refusals[ref], least), most) })
}

// verify reports events whose outcome is wrong.
func (k *killTest) verify() {
	k.Helper()
	k.receiver.mu.Lock()
	defer k.receiver.mu.Unlock()
	expect.That(k, k.receiver.forged <= 0, "%d requests had no signature with a secret that the customer knows",
		k.receiver.forged)
	events := expect.Value(k.store.RecentEvents(k.Context(), k.caller.Account, "", 0, always))(k)
	for _, ref := range k.recorded {
		i := slices.IndexFunc(events, func(e webhook.Event) bool { return e.Ref == ref })
		if i < 0 {
			k.Errorf("%s, %s: the event is lost", ref, k.stages[ref])
			continue
		}
		log := expect.Value(k.store.Attempts(k.Context(), k.caller.Account, ref))(k)
		k.verifyEvent(events[i], log, k.receiver.arrivals[ref])
	}
}

func (k *killTest) verifyEvent(e webhook.Event, log []webhook.Attempt, arrivals int) {
	k.Helper()
	interrupted, refused, accepted := 0, 0, 0
	for _, a := range log {
		switch {
		case a.TookMS == nil:
			interrupted++
		case a.Status >= 200 && a.Status <= 299:
			accepted++
		default:
			refused++
		}
	}
	rounds := k.rounds[e.Ref]
	wrong := ""
	switch {
	case e.Attempts != len(log):
		wrong = "the log is incomplete"
	case e.State == "delivered" && (accepted != 1 || refused >= 4*rounds):
		wrong = "delivered, but not accepted exactly once"
	case e.State == "failed" && (accepted != 0 || refused != 4*rounds):
		wrong = "failed, but not refused four times"
	case arrivals > 4*rounds+k.kills[e.Ref]:
		wrong = "sent more than four times plus once for each kill"
	case arrivals > len(log), interrupted > k.kills[e.Ref]:
		wrong = "sent without an attempt, or interrupted without a kill"
	}
	expect.That(k, wrong == "",
		"%s, %s: %s: %s, sent %d times in %d attempts: %d accepted, %d refused, %d interrupted; %d kills", e.Ref,
		k.stages[e.Ref], wrong, e.State, arrivals, len(log), accepted, refused, interrupted, k.kills[e.Ref])
}
