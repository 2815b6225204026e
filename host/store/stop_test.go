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
	"assay/host/check"
	"assay/host/customer/billing"
	"assay/host/customer/feedback"
	"assay/host/customer/privacy"
	"assay/host/customer/webhook"
	"assay/host/entity"
	"assay/registry"
	is "assay/registry/expect"
)

// busyHostEnv makes the test binary a busy host: the database's URL, an account, a key, and the operations to repeat.
const busyHostEnv = "ASSAY_TEST_BUSY_HOST"

// TestStoppedHosts stops a host at random moments of everything that locks rows others wait for. Meanwhile another host
// records, erases and changes the same, and must not wait a second if ASSAY_STOPS sets the number of stops.
func TestStoppedHosts(t *testing.T) {
	t.Parallel()
	stops, limit := 20, time.Minute // a busy machine is no failure
	if text := os.Getenv("ASSAY_STOPS"); text != "" {
		stops, limit = must(strconv.Atoi(text))(t), time.Second
	}
	if onCitus() {
		limit += 2 * time.Second // a cluster looks for deadlocks every two seconds
	}
	is.Each(t, map[string]string{
		"all besides checks": "erase export keys billing lineups partitions anchors events feedback endpoints graph",
		"checks":             "append",
	}, func(t *testing.T, operations string) {
		s := newStore(t, nil)
		noError(t, s.PublishPlugin(t.Context(), module(t, "probe", "Probes"), "1.0.0", "", nil))
		caller := subscriber(t, s)
		l := ledgerOn(t, s, LedgerConfig{})
		jane, john := parse(t, entity.Domain, "jane.example"), parse(t, entity.Domain, "john.example")
		record := func() error {
			return l.Append(context.WithoutCancel(t.Context()), decided(caller, jane, check.Block),
				decided(caller, john, check.Block))
		}
		for range 60 { // for the anchors
			noError(t, record())
		}
		host := startBusyHost(t, s.url, caller, operations)

		ctx, end := context.WithCancel(t.Context())
		defer end()
		var others sync.WaitGroup
		// repeat counts the calls of f.
		repeat := func(what string, f func(ctx context.Context) error) (calls *atomic.Int64) {
			calls = &atomic.Int64{}
			others.Go(func() {
				for ctx.Err() == nil {
					if err := f(context.WithoutCancel(ctx)); err != nil {
						t.Errorf("%s: %v", what, err)
						return
					}
					calls.Add(1)
				}
			})
			return calls
		}
		checks := repeat("recording checks", func(context.Context) error { return record() })
		changes := repeat("enabling the endpoint", func(ctx context.Context) error {
			return except(s.EnableEndpoint(ctx, caller.Account), webhook.ErrNoEndpoint) // the host changes it
		})
		repeat("erasing", func(ctx context.Context) error {
			_, err := s.Erase(ctx, caller, about(john))
			if isOutage(err) { // it waited for a transaction of another erasure
				err = nil
			}
			return err
		})
		var longest time.Duration
		for range stops {
			<-time.After(rand.N(30 * time.Millisecond))
			noError(t, host.Signal(syscall.SIGSTOP))
			began := time.Now()
			for _, calls := range []*atomic.Int64{checks, changes} {
				before := calls.Load()
				for calls.Load() < before+2 && time.Since(began) < limit { // the second began after the stop
					<-time.After(time.Millisecond)
				}
			}
			longest = max(longest, time.Since(began))
			noError(t, host.Signal(syscall.SIGCONT))
		}
		end()
		others.Wait()
		t.Logf("%d stops: two checks and two changes in a row took at most %v", stops, longest)
		holds(t, longest < limit, "while a host was stopped, two checks and two changes in a row took %v", longest)
		noError(t, host.Signal(syscall.SIGKILL))
	})
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
	line, err := bufio.NewReader(out).ReadString('\n')
	mustHold(t, err == nil, "the busy host said %q, %v", line, err)
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
		if isRefusal(err) || errors.Is(err, errSlow) { // the host was stopped for longer than a check waits
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
		return errors.Join(except(err, privacy.ErrUnknownSubject), s.RevokeKey(ctx, key.ID))
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
		err := errors.Join(s.BeginCheckout(ctx, c), give(ctx, s, subscriptionOf(c, billing.Active)),
			errOf(s.Claim(ctx, c.Session)), errOf(s.Reissue(ctx, c.Session)))
		return errors.Join(err, give(ctx, s, subscriptionOf(c, billing.Canceled)))
	},
	"lineups": func(ctx context.Context, s *Store, _ check.Caller, i int) error {
		if i%2 == 1 {
			return rollback(ctx, s, 1, "")
		}
		return errOf(activate(ctx, s, lineupOf("probe@1.0.0"), registry.OriginOperator, ""))
	},
	"partitions": func(ctx context.Context, s *Store, _ check.Caller, _ int) error {
		first := time.Date(2001, 1, 1, 0, 0, 0, 0, time.UTC)
		err := s.createPartitions(ctx, first)
		for i := range 3 {
			err = errors.Join(err, s.dropPartition(ctx, partition(first.AddDate(0, i, 0)), nil))
		}
		if postponed(err) {
			err = nil
		}
		return err
	},
	"anchors": func(ctx context.Context, s *Store, _ check.Caller, _ int) error {
		var row headRow
		err := s.db.NewRaw("SELECT chain, seq, hash FROM audit_records ORDER BY seq LIMIT 1 OFFSET 10").Scan(ctx, &row)
		if err != nil {
			return except(err, sql.ErrNoRows)
		}
		head, broken := row.head()
		if broken != nil {
			return broken
		}
		anchor := audit.Anchor{Head: head, Before: time.Date(2031, 4, 1, 0, 0, 0, 0, time.UTC)}
		note, err := testSigner().Anchor(anchor)
		return errors.Join(err, s.KeepAnchor(ctx, anchor, note), s.pruneRows(ctx, anchor))
	},
	"events": func(ctx context.Context, s *Store, c check.Caller, _ int) error {
		return except(errOf(s.SendTestEvent(ctx, c.Account, check.Review)), webhook.ErrNoEndpoint)
	},
	"feedback": func(ctx context.Context, s *Store, c check.Caller, i int) error {
		var ref string
		err := s.db.NewRaw(`SELECT ref FROM audit_records WHERE account_id = ? AND kind = 'check'
			ORDER BY seq DESC LIMIT 1`,
			c.Account).Scan(ctx, &ref)
		if err == nil && i%2 == 0 {
			_, err = s.KeepFeedback(ctx, c, feedback.Report{Ref: ref, Label: feedback.Fraud}, nil)
		} else if err == nil {
			err = s.RevokeFeedback(ctx, c, ref)
		}
		return except(err, sql.ErrNoRows, feedback.ErrUnknownCheck) // erased
	},
	"endpoints": func(ctx context.Context, s *Store, c check.Caller, i int) error {
		_, err := s.SetEndpoint(ctx, c.Account, "https://receiver.example")
		err = errors.Join(err, errOf(s.RotateSecret(ctx, c.Account, time.Minute)),
			s.MoveEndpoint(ctx, c.Account, "https://other.example"))
		_, _, failed := s.ResendFailed(ctx, c.Account, time.Time{})
		err = errors.Join(err, failed)
		if i%10 == 9 {
			err = errors.Join(err, s.RemoveEndpoint(ctx, c.Account))
		}
		return err
	},
	"graph": func(ctx context.Context, s *Store, c check.Caller, i int) error {
		if i%10 == 9 {
			return errors.Join(s.PruneSightings(ctx), errOf2(s.ForgetAccountSightings(ctx, c.Account)))
		}
		jane, err := entity.Parse(entity.Domain, "jane.example", "")
		return errors.Join(err, errOf2(s.ForgetSightings(ctx, c.Account, jane)))
	},
}
