package store

import (
	"bufio"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	osexec "os/exec"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/oklog/ulid/v2"

	"assay/host/audit"
	"assay/host/billing"
	"assay/host/check"
	"assay/host/entity"
	"assay/host/privacy"
	"assay/registry"
)

// busyHostEnv makes the test binary a busy host. It holds the URL of the database, an account and a key of it, and the
// names of the operations that the host repeats.
const busyHostEnv = "ASSAY_TEST_BUSY_HOST"

// TestStoppedHosts stops a host at random moments while it does everything that locks audit heads or other rows that
// checks wait for. Meanwhile another host records checks of the same account and chain. ASSAY_STOPS sets the number of
// stops. If set, each check must be recorded within a second, otherwise, because the machine may be busy, within two.
func TestStoppedHosts(t *testing.T) {
	t.Parallel()
	stops, limit := 20, 2*time.Second
	if text := os.Getenv("ASSAY_STOPS"); text != "" {
		stops, limit = must(strconv.Atoi(text))(t), time.Second
	}
	for name, operations := range map[string]string{
		"all besides checks": "erase export keys billing lineups partitions anchors events",
		"checks":             "append",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newStore(t, nil)
			noError(t, s.PublishPlugin(t.Context(), module(t, "probe", "1.0.0", "Probes"), "1.0.0", false))
			caller := subscriber(t, s)
			l := ledgerOn(t, s, LedgerConfig{})
			john := parse(t, entity.Domain, "john.example")
			record := func() error {
				return l.Append(context.WithoutCancel(t.Context()),
					decided(caller, parse(t, entity.Domain, "jane.example"), check.Block),
					decided(caller, john, check.Block))
			}
			for range 60 { // for the anchors
				noError(t, record())
			}
			host := startBusyHost(t, s.url, caller, operations)

			var done atomic.Int64
			var failed error
			var recording sync.WaitGroup
			end := make(chan struct{})
			recording.Go(func() {
				for {
					select {
					case <-end:
						return
					default:
					}
					if failed = record(); failed != nil {
						return
					}
					done.Add(1)
				}
			})
			var longest time.Duration
			for range stops {
				resume := time.After(rand.N(30 * time.Millisecond))
				<-resume
				noError(t, host.Signal(syscall.SIGSTOP))
				before, began := done.Load(), time.Now()
				for done.Load() < before+2 && time.Since(began) < limit { // the second began after the stop
					<-time.After(time.Millisecond)
				}
				longest = max(longest, time.Since(began))
				noError(t, host.Signal(syscall.SIGCONT))
			}
			close(end)
			recording.Wait()
			t.Logf("%d stops: two checks in a row were recorded within %v", stops, longest)
			if failed != nil || longest >= limit {
				t.Errorf("while a host was stopped, two checks in a row took %v, error %v", longest, failed)
			}
			noError(t, host.Signal(syscall.SIGKILL))
		})
	}
}

// startBusyHost starts a process that does operations of an account, and waits until it has done each of them.
func startBusyHost(t *testing.T, url string, caller check.Caller, operations string) *os.Process {
	t.Helper()
	cmd := osexec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), busyHostEnv+"="+strings.Join([]string{url, caller.Account, caller.Key, operations},
		" "))
	cmd.Stderr = t.Output()
	out := must(cmd.StdoutPipe())(t)
	noError(t, cmd.Start())
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	if line, err := bufio.NewReader(out).ReadString('\n'); err != nil {
		t.Fatalf("the busy host said %q, %v", line, err)
	}
	return cmd.Process
}

// busyHost does the operations until it is killed. It prints a line once each was done.
func busyHost(ctx context.Context, arguments string) error {
	words := strings.Fields(arguments)
	s, err := tryOpen(ctx, words[0])
	if err != nil {
		return err
	}
	caller := check.Caller{Account: words[1], Key: words[2]}
	l, err := s.NewLedger(LedgerConfig{})
	if err != nil {
		return err
	}
	operations["append"] = func(ctx context.Context, _ *Store, c check.Caller, _ int) error {
		jim, err := entity.Parse(entity.Domain, "jim.example", "")
		err = errors.Join(err, l.Append(ctx, decided(c, jim, check.Allow)))
		if isRefusal(err) { // the host was stopped for longer than a check waits
			err = nil
		}
		return err
	}
	failed := make(chan error)
	var first sync.WaitGroup
	for _, name := range words[3:] {
		first.Add(1)
		go func() {
			for i := 0; ; i++ {
				if err := operations[name](ctx, s, caller, i); err != nil {
					failed <- fmt.Errorf("%s: %w", name, err)
				}
				if i == 0 {
					first.Done()
				}
			}
		}()
	}
	go func() {
		first.Wait()
		fmt.Println("busy")
	}()
	return <-failed
}

// operations are what a busy host does, by name. The integer counts the calls.
var operations = map[string]func(ctx context.Context, s *Store, c check.Caller, i int) error{
	"erase": func(ctx context.Context, s *Store, c check.Caller, _ int) error {
		jane, err := entity.Parse(entity.Domain, "jane.example", "")
		if err == nil {
			_, err = s.Erase(ctx, c, about(jane))
		}
		return err
	},
	"export": func(ctx context.Context, s *Store, c check.Caller, _ int) error {
		key, err := s.CreateKey(ctx, c.Account, "export") // the first export to a key is recorded
		if err != nil {
			return err
		}
		john, err := entity.Parse(entity.Domain, "john.example", "")
		if err == nil {
			_, err = s.Export(ctx, check.Caller{Account: c.Account, Key: key.ID}, about(john), privacy.Page{Limit: 1})
		}
		if errors.Is(err, privacy.ErrUnknownSubject) {
			err = nil
		}
		return errors.Join(err, s.RevokeKey(ctx, key.ID))
	},
	"keys": func(ctx context.Context, s *Store, c check.Caller, _ int) error {
		key, err := s.CreateKey(ctx, c.Account, "busy")
		if err != nil {
			return err
		}
		next, err := s.RotateKey(ctx, c.Account, key.ID, time.Minute)
		if err != nil {
			return err
		}
		return errors.Join(s.RevokeAccountKey(ctx, c.Account, next.ID), s.RevokeKey(ctx, key.ID))
	},
	"billing": func(ctx context.Context, s *Store, _ check.Caller, _ int) error {
		id := "co_" + ulid.Make().String()
		c := billing.Checkout{ID: id, Session: billing.SessionHash(id), Plan: "pro", Provider: "stripe", At: time.Now()}
		err := errors.Join(s.BeginCheckout(ctx, c), s.Apply(ctx, newChange(c, 0, billing.Active)),
			errOf(s.Claim(ctx, c.Session)), errOf(s.Reissue(ctx, c.Session)))
		return errors.Join(err, s.Apply(ctx, newChange(c, 1, billing.Canceled)))
	},
	"lineups": func(ctx context.Context, s *Store, _ check.Caller, i int) error {
		if i%2 == 1 {
			return s.RollbackLineup(ctx, 1, "")
		}
		return errOf(s.ActivateLineup(ctx, lineupOf("probe@1.0.0"), registry.OriginOperator, ""))
	},
	"partitions": func(ctx context.Context, s *Store, _ check.Caller, _ int) error {
		first := time.Date(2001, 1, 1, 0, 0, 0, 0, time.UTC)
		err := s.createPartitions(ctx, first)
		for i := range 3 {
			err = errors.Join(err, s.dropPartition(ctx, partition(first.AddDate(0, i, 0)), nil))
		}
		if sqlState(err) == lockNotAvailable { // postponed
			err = nil
		}
		return err
	},
	"anchors": func(ctx context.Context, s *Store, _ check.Caller, _ int) error {
		var row headRow
		err := s.db.NewRaw("SELECT chain, seq, hash FROM audit_records ORDER BY seq LIMIT 1 OFFSET 10").Scan(ctx, &row)
		if errors.Is(err, sql.ErrNoRows) {
			return nil
		}
		if err != nil {
			return err
		}
		head, err := row.head()
		if err != nil {
			return err
		}
		anchor := audit.Anchor{Head: head, Before: time.Date(2031, 4, 1, 0, 0, 0, 0, time.UTC)}
		note, err := testSigner().Anchor(anchor)
		return errors.Join(err, s.KeepAnchor(ctx, anchor, note), s.pruneRows(ctx, anchor))
	},
	"events": func(ctx context.Context, s *Store, c check.Caller, i int) error {
		if i%20 == 19 {
			return errOf(s.RotateSecret(ctx, c.Account, time.Minute))
		}
		return errOf(s.SendTestEvent(ctx, c.Account))
	},
}
