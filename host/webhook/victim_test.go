package webhook

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
	"assay/host/store"
)

// asVictim makes the test binary a host to be killed, on the database that it names.
const asVictim = "ASSAY_TEST_AS_VICTIM"

// beVictim is a host without its HTTP side: what records checks and what delivers their events, wired as in production.
// It does what the lines of its standard input say, and answers each with "done" or why not.
func beVictim(url string) int {
	fail := func(err error) int { fmt.Fprintln(os.Stderr, "victim:", err); return 1 }
	if err := loadRing(); err != nil {
		return fail(err)
	}
	ctx := context.Background()
	d, _, err := start(ctx, url)
	if err != nil {
		return fail(err)
	}
	fmt.Println("done")
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		var err error
		switch order := strings.Fields(lines.Text()); order[0] {
		case "check":
			plan, _ := check.PlanNamed("pro")
			err = d.block(ctx, check.Caller{Account: order[1], Key: order[2], Plan: plan}, order[3])
		case "resend":
			err = d.store.ResendEvent(ctx, order[1], order[2])
		case "rotate":
			_, err = d.store.RotateSecret(ctx, order[1], store.SecretOverlap)
		}
		if err != nil {
			return fail(err)
		}
		fmt.Println("done")
	}
	return 0 // the test is gone
}

// victim is such a host in a process of its own.
type victim struct {
	cmd    *exec.Cmd
	orders io.Writer
	done   chan string // what it said, closed at its end
}

func startVictim(t *testing.T, url string) *victim {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), asVictim+"="+url)
	cmd.Stderr = t.Output()
	orders, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	v := &victim{cmd: cmd, orders: orders, done: make(chan string, 100)}
	go func() {
		defer close(v.done)
		for lines := bufio.NewScanner(out); lines.Scan(); {
			v.done <- lines.Text()
		}
	}()
	t.Cleanup(v.kill)
	return v
}

// order tells the host what to do, without waiting for it.
func (v *victim) order(t *testing.T, words ...string) {
	t.Helper()
	if _, err := fmt.Fprintln(v.orders, strings.Join(words, " ")); err != nil {
		t.Fatal(err)
	}
}

// await waits until the host has done what it was told.
func (v *victim) await(t *testing.T) {
	t.Helper()
	if _, ok := <-v.done; !ok {
		t.Fatal("the host died of itself")
	}
}

// kill ends the host as a power cut would.
func (v *victim) kill() {
	_ = v.cmd.Process.Kill()
	for range v.done {
	}
	_ = v.cmd.Wait()
}
