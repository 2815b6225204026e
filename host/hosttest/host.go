package hosttest

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"testing"

	"assay/host/store/postgres/postgrestest"
	"assay/registry/expect"
)

// HostProcess is a running host.
type HostProcess struct {
	URL   string
	Admin string // URL for operators
	Key   string // the demo key, on the private database
	Cmd   *exec.Cmd
	done  chan error
}

// StartHost starts a host and waits until it is ready. The host is stopped when the test ends.
func StartHost(t testing.TB, dir, database string, args ...string) *HostProcess {
	t.Helper()
	return RunHost(t, Command(context.WithoutCancel(t.Context()), dir, database, args...))
}

// NewHost starts a host that has a data directory and a database of its own.
func NewHost(t testing.TB, args ...string) (dir, database string, host *HostProcess) {
	t.Helper()
	dir, database = DataDir(t), postgrestest.Database(t)
	return dir, database, StartHost(t, dir, database, args...)
}

// RunHost is StartHost for a command.
func RunHost(t testing.TB, cmd *exec.Cmd) *HostProcess {
	t.Helper()
	return expect.Value(TryHost(t, cmd))(t)
}

// TryHost is like RunHost, but returns an error if the host does not become ready.
func TryHost(t testing.TB, cmd *exec.Cmd) (*HostProcess, error) {
	h, err := begin(cmd)
	if err == nil {
		t.Cleanup(func() { h.Stop(t, syscall.SIGTERM) })
	}
	return h, err
}

// begin starts a host and waits until it is ready.
func begin(cmd *exec.Cmd) (*HostProcess, error) {
	h := &HostProcess{Cmd: cmd, done: make(chan error, 1)}
	var stderr bytes.Buffer
	h.Cmd.Stderr = &stderr
	out, err := h.Cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := h.Cmd.Start(); err != nil {
		return nil, err
	}
	lines := bufio.NewScanner(out)
	for lines.Scan() {
		line := lines.Text()
		for before, into := range map[string]*string{
			"Assay is ready at ": &h.URL, "  admin  ": &h.Admin, "  key  ": &h.Key,
		} {
			if text, found := strings.CutPrefix(line, before); found {
				*into = text
			}
		}
		if strings.HasPrefix(line, "  try") || strings.HasPrefix(line, "  Create") {
			break
		}
	}
	if h.URL == "" {
		err := h.Cmd.Wait()
		return nil, fmt.Errorf("starting a host: %w\n%s", cmp.Or(err, errors.New("it is not ready")), stderr.String())
	}
	go func() {
		_, _ = io.Copy(io.Discard, out)
		h.done <- h.Cmd.Wait()
	}()
	return h, nil
}

// Stop sends a signal and waits until the host exits. After SIGTERM its exit code must be 0.
func (h *HostProcess) Stop(t testing.TB, sig syscall.Signal) {
	t.Helper()
	err := h.end(sig)
	expect.That(t, err == nil || sig != syscall.SIGTERM, "the host failed after SIGTERM: %v", err)
}

// end sends a signal to a host, unless it was ended before, and waits until it exits.
func (h *HostProcess) end(sig syscall.Signal) error {
	if h.done == nil {
		return nil
	}
	_ = h.Cmd.Process.Signal(sig)
	err := <-h.done
	h.done = nil
	return err
}

// Answer is a host's answer to a check.
type Answer struct {
	Status  int      `json:"-"`
	Score   int      `json:"score"`
	Verdict string   `json:"verdict"`
	Signals []string `json:"signals"`
	Threat  *string  `json:"dominant_threat"`
	Type    string   `json:"type"`
	Ref     string   `json:"ref"`
	Error   string   `json:"error"`
	ResetAt string   `json:"reset_at"`
}

// Event returns the name of the webhook event for the verdict.
func (a Answer) Event() string {
	if a.Verdict == "block" {
		return "check.blocked"
	}
	return "check." + a.Verdict
}

// Degraded reports whether a layer could not run in time, as happens on a busy machine.
func (a Answer) Degraded() bool { return slices.ContainsFunc(a.Signals, DegradedText) }

// DegradedText reports whether a text contains the signal of a layer that could not run in time.
func DegradedText(text string) bool { return strings.Contains(text, "layer failed; with it") }

// CheckUntilComplete repeats a check until all layers have run in time.
func CheckUntilComplete(host *HostProcess, key, body string) Answer {
	var a Answer
	Repeat(func() bool {
		a = CheckOnce(host, key, body)
		return !a.Degraded()
	})
	return a
}

// CheckOnce makes a single check, for tests that count checks. The answer may be degraded.
func CheckOnce(host *HostProcess, key, body string) Answer {
	return Post(http.DefaultClient, host.URL, key, body)
}

// Post makes a check as the official clients do, and returns the answer: it repeats it with one Idempotency-Key after a
// refusal, and when the database did not say in time whether it recorded it. If the connection breaks, the status is 0.
func Post(client *http.Client, url, key, body string) (a Answer) {
	once := rand.Text()
	Repeat(func() bool {
		a = PostOnce(client, url, key, body, "Idempotency-Key", once)
		return a.Status < http.StatusInternalServerError
	})
	return a
}

// PostOnce makes a check. If the connection breaks, the status is 0.
func PostOnce(client *http.Client, url, key, body string, headers ...string) Answer {
	status, text, err := exchange(context.Background(), client, key, http.MethodPost, url+"/api/check", body,
		append(headers, "Content-Type", "application/json")...)
	a := Answer{Status: status}
	if err == nil {
		err = json.Unmarshal([]byte(text), &a)
	}
	if err != nil {
		return Answer{Error: err.Error()}
	}
	return a
}
