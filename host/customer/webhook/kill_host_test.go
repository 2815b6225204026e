package webhook_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"os"
	"os/exec"
	"strings"
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
	stdin := expect.Value(cmd.StdinPipe())(t)
	out := expect.Value(cmd.StdoutPipe())(t)
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
	deliverer, err := webhook.New(webhook.Config{Outbox: outbox, Allow: []netip.Prefix{loopback}})
	if err != nil {
		return nil, nil, err
	}
	ledger, err := s.NewLedger(store.LedgerConfig{OnEvents: deliverer.Hint})
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

// subscribe creates an account whose events go to url, and returns a caller for it.
func (d *deployment) subscribe(t testing.TB, url string) check.Caller {
	t.Helper()
	caller := storetest.NewCaller(t, d.store, storetest.Plan(t, "pro", 1_000_000))
	expect.Value(d.store.SetEndpoint(t.Context(), caller.Account, url))(t)
	return caller
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
