package store

import (
	"context"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp/cmpopts"

	"assay/host/check"
	"assay/host/entity"
	"assay/host/store/storetest"
)

// onceAs is a request with an idempotency key, and its answer.
func onceAs(key, request, answer string) *check.Once {
	return &check.Once{Key: key, Request: []byte(request), Answer: []byte(answer)}
}

// with adds a request to the records of its call.
func with(once *check.Once, records ...check.Record) []check.Record {
	for i := range records {
		records[i].Once = once
	}
	return records
}

// wantKept compares the answer that a host finds; "" is none.
func wantKept(t *testing.T, what string, l *Ledger, account string, once *check.Once, want string) {
	t.Helper()
	kept := must(l.Kept(t.Context(), account, once))(t)
	holds(t, (kept == nil) == (want == "") && string(kept) == want, "%s: kept %q, want %q", what, kept, want)
}

// wantCounted checks how many checks of an account were recorded and counted.
func wantCounted(t *testing.T, s *Store, account string, want int) {
	t.Helper()
	expect(t, "records and counted checks", one[string](t, s, `SELECT concat_ws(' and ',
		(SELECT count(*) FROM audit_records WHERE kind = 'check' AND account_id = ?0),
		(SELECT sum(used) FROM quota_usage WHERE account_id = ?0))`, account), fmt.Sprintf("%d and %[1]d", want))
}

// Two hosts share a database. The first request with a key is recorded, and every host has its answer.
func TestKeptAnswers(t *testing.T) {
	t.Parallel()
	s, l, caller := newLedger(t, nil, LedgerConfig{})
	other := ledgerOn(t, open(t, s.url, nil), LedgerConfig{})
	stranger := newCaller(t, s, plan(t, "pro", 10))
	const key, request, answer = "key of jane@example.org", `{"email":"jane@example.org"}`, "the answer about Jane"
	wantKept(t, "before the request", l, caller.Account, onceAs(key, request, ""), "")
	noError(t, l.Append(t.Context(), with(onceAs(key, request, answer), allowedMany(t, caller, 3)...)...))
	for name, host := range map[string]*Ledger{"the same host": l, "another host": other} {
		wantKept(t, name, host, caller.Account, onceAs(key, request, ""), answer)
		wantKept(t, name+", another account", host, stranger.Account, onceAs(key, request, ""), "")
		wantKept(t, name+", another key", host, caller.Account, onceAs(key+"x", request, ""), "")
		wantError(t, name+", another request",
			errOf(host.Kept(t.Context(), caller.Account, onceAs(key, request+" ", ""))), check.ErrOtherRequest)
		for what, text := range map[string]string{"the same request": request, "another request": request + " "} {
			err := host.Append(t.Context(), with(onceAs(key, text, "another answer"), allowed(t, caller))...)
			wantError(t, name+" records "+what, err, check.ErrAnswered)
		}
	}
	wantKept(t, "after all", l, caller.Account, onceAs(key, request, ""), answer)
	noError(t, l.Complete(t.Context(), caller.Account, onceAs(key, request+" ", "of another request")))
	wantKept(t, "after another request", l, caller.Account, onceAs(key, request, ""), answer)
	noError(t, l.Complete(t.Context(), caller.Account, onceAs(key, request, "completed")))
	wantKept(t, "completed", l, caller.Account, onceAs(key, request, ""), "completed")
	wantCounted(t, s, caller.Account, 3)
	noError(t, l.Append(t.Context(), with(onceAs(key, request, answer), allowed(t, stranger))...))
	wantCounted(t, s, stranger.Account, 1)
	verifyLedger(t, s)

	// Nothing in the row can be read without the request.
	dump := dumpTables(t, s)
	for _, text := range []string{key, request, answer, "jane@example.org"} {
		holds(t, !strings.Contains(dump, text) && !strings.Contains(dump, hex.EncodeToString([]byte(text))),
			"the database contains %q", text)
	}
	// A row that was altered is an error, not another answer.
	must(s.db.Exec("UPDATE answers SET sealed = set_byte(sealed, 20, get_byte(sealed, 20) # 1)"))(t)
	wantErrorText(t, "an altered answer", errOf(l.Kept(t.Context(), caller.Account, onceAs(key, request, ""))),
		"opening sealed answer")
}

// Of the same request that arrives many times at once, at two hosts, one is recorded.
func TestConcurrentRequestsWithOneKey(t *testing.T) {
	t.Parallel()
	s, l, caller := newVerified(t, nil, LedgerConfig{})
	hosts := []*Ledger{l, ledgerOn(t, open(t, s.url, nil), LedgerConfig{})}
	errs := concurrently(40, func(i int) error {
		return hosts[i%2].Append(t.Context(), with(onceAs("key", "request", fmt.Sprint(i)), allowed(t, caller))...)
	})
	first := slices.Index(errs, nil)
	expect(t, "requests that were recorded", successes(t, errs, check.ErrAnswered), 1)
	wantKept(t, "on the other host", hosts[(first+1)%2], caller.Account, onceAs("key", "request", ""),
		fmt.Sprint(first))

	// The same within one batch.
	records := listOf(6, func(i int) check.Record {
		return with(onceAs(fmt.Sprint("key ", i%2), "request", fmt.Sprint(i)), allowed(t, caller))[0]
	})
	for i, err := range inOneBatch(t, s.url, l, caller, records) {
		wantError(t, "a call of a batch", err, []error{nil, nil, check.ErrAnswered}[min(i, 2)])
	}
	for i := range 2 {
		wantKept(t, "of a batch", l, caller.Account, onceAs(fmt.Sprint("key ", i), "request", ""), fmt.Sprint(i))
	}
	wantCounted(t, s, caller.Account, 1+1+2) // one opens the batch

	// The function finds the second call of a batch, too, before the key's index does.
	batch := prepared(t, l, allowedMany(t, caller, 2), allowedMany(t, caller, 1))
	for i, p := range batch {
		p.answer = must(s.answerOf(caller.Account, onceAs("key of a batch", "request", fmt.Sprint(i))))(t)
	}
	calls := must(send(t, l, []byte("batch"), batch))(t)
	noDiff(t, "outcomes", []error{nil, check.ErrAnswered}, calls, cmpopts.EquateErrors())
	wantKept(t, "of the first call", l, caller.Account, onceAs("key of a batch", "request", ""), "0")
}

// A host ends, or loses its database, while a check is being recorded. The client asks another host, with the same key.
func TestAnswerOfALostHost(t *testing.T) {
	t.Parallel()
	direct := newStore(t, nil)
	for name, c := range map[string]struct {
		fate     storetest.Fate
		recorded bool
	}{"before the check was recorded": {storetest.Lost, false}, "afterwards": {storetest.Muted, true}} {
		t.Run(name, func(t *testing.T) {
			p := proxied(t, direct.url)
			l := ledgerOn(t, open(t, p.URL, nil), LedgerConfig{Settling: 500 * time.Millisecond})
			other := ledgerOn(t, direct, LedgerConfig{})
			caller := newCaller(t, direct, plan(t, "pro", 10))
			ctx, leave := context.WithCancel(t.Context())
			defer leave()
			hit := p.Once(c.fate, true, isAppend)
			answer := async(func() error {
				return l.Append(ctx, with(onceAs("key", "request", "first"), allowed(t, caller))...)
			})
			receive(t, "the fault", hit)
			leave()
			err := receive(t, "the outcome", answer)
			holds(t, err != nil && !isRefusal(err), "append returned %v, want an unknown outcome", err)
			want := "second"
			if c.recorded {
				want = "first"
				until(t, "the answer", func() bool {
					kept, err := other.Kept(t.Context(), caller.Account, onceAs("key", "request", ""))
					return err == nil && kept != nil
				})
			}
			err = other.Append(t.Context(), with(onceAs("key", "request", "second"), allowed(t, caller))...)
			wantError(t, "the request again", err, map[bool]error{true: check.ErrAnswered}[c.recorded])
			wantKept(t, "the request again", other, caller.Account, onceAs("key", "request", ""), want)
			p.Set(nil, false)
			wantCounted(t, direct, caller.Account, 1)
			verifyLedger(t, direct)
		})
	}
}

// A call that is refused leaves its key free.
func TestRefusedCallsKeepNoAnswer(t *testing.T) {
	t.Parallel()
	s, l, caller := newVerified(t, nil, LedgerConfig{})
	poor, gone := newCaller(t, s, plan(t, "free", 0)), newCaller(t, s, plan(t, "pro", 10))
	noError(t, s.RevokeKey(t.Context(), gone.Key))
	again := onceAs("key", "request", "answer")
	wantErrorText(t, "a check over its quota", l.Append(t.Context(), with(again, allowed(t, poor))...), "quota")
	wantError(t, "a check with a revoked key", l.Append(t.Context(), with(again, allowed(t, gone))...),
		check.ErrUnauthorized)
	wantError(t, "a check under no lineup", l.Append(t.Context(), with(again, of(lasting+9, allowed(t, caller)))...),
		check.ErrRevision)
	expect(t, "answers", rowsOf(t, s, "answers"), 0)
	noError(t, l.Append(t.Context(), with(again, allowed(t, caller))...))
	// An answer is found before the quota is.
	exec(t, session(t, s.url), "UPDATE accounts SET quota = 1")
	wantError(t, "the request again", l.Append(t.Context(), with(again, allowed(t, caller))...), check.ErrAnswered)
}

// The database's clock decides how long an answer is kept.
func TestAnswersExpire(t *testing.T) {
	t.Parallel()
	s, clock := openWithClock(t)
	l, caller := ledgerOn(t, s, LedgerConfig{}), newCaller(t, s, plan(t, "pro", 10))
	send := func(answer string) error {
		return l.Append(t.Context(), with(onceAs("key", answer, answer), allowed(t, caller))...)
	}
	kept := func() int {
		noError(t, s.Prune(t.Context()))
		return rowsOf(t, s, "answers")
	}
	noError(t, send("first"))
	clock.advance(t, 24*time.Hour-time.Second)
	wantKept(t, "within a day", l, caller.Account, onceAs("key", "first", ""), "first")
	wantError(t, "within a day", send("second"), check.ErrAnswered)
	expect(t, "answers within a day", kept(), 1)
	clock.advance(t, time.Second)
	wantKept(t, "after a day", l, caller.Account, onceAs("key", "first", ""), "")
	noError(t, send("second"))
	wantKept(t, "after a day", l, caller.Account, onceAs("key", "second", ""), "second")
	expect(t, "answers after a day", kept(), 1)
	wantCounted(t, s, caller.Account, 2)
}

// An erasure deletes the account's answers about the subject, alone or in a batch, and no others.
func TestErasureDeletesAnswers(t *testing.T) {
	t.Parallel()
	s, l, caller := newVerified(t, nil, LedgerConfig{})
	other := newCaller(t, s, plan(t, "pro", 10))
	jane, john := parse(t, entity.Email, "jane@example.org"), parse(t, entity.Email, "john@example.org")
	senders := map[string]check.Caller{}
	send := func(key string, c check.Caller, about ...entity.Entity) {
		records := column(about, func(e entity.Entity) check.Record { return decided(c, e, check.Allow) })
		noError(t, l.Append(t.Context(), with(onceAs(key, "request", key), records...)...))
		senders[key] = c
	}
	send("jane", caller, jane)
	send("john and jane", caller, john, jane)
	send("john", caller, john)
	send("another account's jane", other, jane)
	erase(t, s, caller, about(jane))
	for key, c := range senders {
		want := map[string]string{"john": key, "another account's jane": key}[key]
		wantKept(t, "after the erasure of jane, "+key, l, c.Account, onceAs(key, "request", ""), want)
	}
	send("jane", caller, jane) // is a new check
}
