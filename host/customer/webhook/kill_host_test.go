package webhook_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"testing"

	"assay/host/check"
	"assay/host/customer/webhook"
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
