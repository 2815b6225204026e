package store

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"assay/host/check"
	"assay/host/entity"
	"assay/host/postgres/postgrestest"
	"assay/host/privacy"
)

func TestExportHoldsAll(t *testing.T) {
	t.Parallel()
	s := open(t, postgrestest.Database(t), func() time.Time { return noon })
	l, o := ledgerOn(t, s, LedgerConfig{}), outboxOf(t, s)
	caller := subscriber(t, s)
	jane := parse(t, entity.Email, "jane.roe@example.net")
	sent := decided(caller, jane, check.Block)
	first := appendOne(t, l, sent)
	d := claimOne(t, o)
	finish(t, o, ended(d, 200))
	held := at(decided(caller, jane, check.Review), noon.Add(time.Minute))
	held.Linked = []entity.Entity{parse(t, entity.Phone, "+4915123456789")}
	second := appendOne(t, l, held)
	third := appendOne(t, l, at(decided(caller, jane, check.Allow), noon.Add(2*time.Minute)))
	appendOne(t, l, decided(caller, parse(t, entity.Email, "john.roe@example.net"), check.Block))
	subject, err := s.SubjectOf(t.Context(), caller, jane)
	if err != nil {
		t.Fatal(err)
	}
	got := export(t, s, caller, privacy.Selector{Ref: second})
	for i := range got.Checks {
		if e := got.Checks[i].Webhook; e != nil {
			e.NextAttemptAt, e.SettledAt = nil, nil // by the database's clock
		}
	}
	text, err := json.MarshalIndent(got, "", " ")
	if err != nil {
		t.Fatal(err)
	}
	_, body, err := held.Decision.Event()
	if err != nil {
		t.Fatal(err)
	}
	indented, _ := json.MarshalIndent(json.RawMessage(body), "   ", " ")
	key := caller.Key
	want := fmt.Sprintf(`{
 "subject": %q,
 "type": "email",
 "total": 3,
 "checks": [
  {
   "ref": %q,
   "timestamp": "2031-05-20T12:00:00.000Z",
   "type": "email",
   "score": 91,
   "verdict": "block",
   "key": %q,
   "webhook": {
    "event": "check.blocked",
    "sequence": 1,
    "state": "delivered",
    "attempts": 1,
    "timestamp": "2031-05-20T12:00:00.000Z",
    "next_attempt_at": null,
    "settled_at": null,
    "body": null
   }
  },
  {
   "ref": %q,
   "timestamp": "2031-05-20T12:01:00.000Z",
   "type": "email",
   "score": 55,
   "verdict": "review",
   "key": %q,
   "webhook": {
    "event": "check.review",
    "sequence": 2,
    "state": "pending",
    "attempts": 0,
    "timestamp": "2031-05-20T12:01:00.000Z",
    "next_attempt_at": null,
    "settled_at": null,
    "body": %s
   }
  },
  {
   "ref": %q,
   "timestamp": "2031-05-20T12:02:00.000Z",
   "type": "email",
   "score": 7,
   "verdict": "allow",
   "key": %q,
   "webhook": null
  }
 ],
 "next": null,
 "graph": {
  "checks": 3,
  "blocked": 1,
  "reviewed": 1,
  "first_seen": "2031-05-20T12:00:00.000Z",
  "last_seen": "2031-05-20T12:02:00.000Z",
  "links": 3
 },
 "erasures": []
}`, subject, first, key, second, key, strings.ReplaceAll(string(indented), "\n   ", "\n    "), third, key)
	if diff := cmp.Diff(want, string(text)); diff != "" {
		t.Errorf("exported (-want +got):\n%s", diff)
	}
}

func TestExportIsPaged(t *testing.T) {
	t.Parallel()
	s := open(t, postgrestest.Database(t), nil)
	l, caller := ledgerOn(t, s, LedgerConfig{}), newCaller(t, s, plan(t, "pro", 100))
	r := allowed(t, caller)
	var want, got []string
	for range 5 {
		want = append(want, appendOne(t, l, decided(caller, r.Entity, check.Allow)))
	}
	other := appendOne(t, l, decided(caller, parse(t, entity.Domain, "other.example"), check.Allow))
	whose := privacy.Selector{Ref: want[3]}
	for page := (privacy.Page{Limit: 2}); ; {
		held, err := s.Export(t.Context(), caller, whose, page)
		if err != nil {
			t.Fatal(err)
		}
		if held.Total != 5 {
			t.Errorf("%d checks in all", held.Total)
		}
		for _, c := range held.Checks {
			got = append(got, c.Ref)
		}
		if held.Next == nil {
			break
		}
		page.After = *held.Next
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("pages (-want +got):\n%s", diff)
	}
	for _, after := range []string{other, check.NewRef()} {
		var invalid *entity.InvalidError
		if _, err := s.Export(t.Context(), caller, whose, privacy.Page{After: after, Limit: 2}); !errors.As(err,
			&invalid) || invalid.Field != "after" {
			t.Errorf("behind a check of another subject: %v", err)
		}
	}
}

// Who was shown what is recorded, once an hour for each key and subject.
func TestExportsAreRecorded(t *testing.T) {
	t.Parallel()
	now := noon
	s := open(t, postgrestest.Database(t), func() time.Time { return now })
	l, caller := ledgerOn(t, s, LedgerConfig{}), newCaller(t, s, plan(t, "pro", 100))
	colleague, _ := newKey(t, s, caller.Account)
	one1, two := privacy.Selector{Ref: appendOne(t, l, allowed(t, caller))},
		privacy.Selector{Ref: appendOne(t, l, decided(caller, parse(t, entity.Domain, "two.example"), check.Allow))}
	unseen := parse(t, entity.Domain, "never.example")
	for _, step := range []struct {
		who    check.Caller
		whose  privacy.Selector
		passed time.Duration
		want   int
	}{
		{caller, one1, 0, 1},
		{caller, one1, time.Minute, 1},
		{colleague, one1, 0, 2},
		{caller, two, 0, 3},
		{caller, about(unseen), 0, 3},
		{caller, one1, 58 * time.Minute, 3},
		{caller, one1, 2 * time.Minute, 4},
	} {
		now = now.Add(step.passed)
		if _, err := s.Export(t.Context(), step.who, step.whose, privacy.Page{Limit: 1}); err != nil &&
			!errors.Is(err, privacy.ErrUnknownSubject) {
			t.Fatal(err)
		}
		if n := one[int](t, s, "SELECT count(*) FROM audit_records WHERE kind = 'export' AND account_id = ? AND key_id <> ''", caller.Account); n != step.want {
			t.Errorf("at %s: %d exports are recorded, want %d", now, n, step.want)
		}
	}
	if held := export(t, s, caller, one1); held.Total != 1 || len(held.Checks) != 1 {
		t.Errorf("exports are shown as checks: %+v", held)
	}
	if erased := erase(t, s, caller, one1); erased.Checks != 1 || erased.Erasures[0].Checks != 1 {
		t.Errorf("exports are counted as checks: %s", counts(erased))
	}
	verifyLedger(t, s)
}

// An event that was altered in the database does not keep the rest from its owner.
func TestExportOfAnAlteredEvent(t *testing.T) {
	t.Parallel()
	s := open(t, postgrestest.Database(t), nil)
	caller := subscriber(t, s)
	ref := blocked(t, ledgerOn(t, s, LedgerConfig{}), caller, 1)[0]
	if _, err := s.db.NewRaw(`UPDATE webhook_events SET sealed_payload = '\x00'`).Exec(t.Context()); err != nil {
		t.Fatal(err)
	}
	if held := export(t, s, caller, privacy.Selector{Ref: ref}); held.Total != 1 ||
		held.Checks[0].Webhook == nil || held.Checks[0].Webhook.Body != nil {
		t.Errorf("held: %+v", held)
	}
}

// What is exported while a subject is erased is as of one moment: all of it, or nothing.
func TestExportDuringErasure(t *testing.T) {
	t.Parallel()
	url := postgrestest.Database(t)
	s := open(t, url, nil)
	l, caller := ledgerOn(t, s, LedgerConfig{}), subscriber(t, s)
	r := decided(caller, parse(t, entity.Domain, "example.org"), check.Block)
	whose := about(r.Entity)
	for range 20 {
		const n = 3
		for range n {
			appendOne(t, l, decided(caller, r.Entity, check.Block))
		}
		erased := make(chan error, 1)
		go func() {
			_, err := s.Erase(context.WithoutCancel(t.Context()), caller, whose)
			erased <- err
		}()
		for gone := false; !gone; {
			held := export(t, s, caller, whose)
			gone = held.Total == 0
			events := 0
			for _, c := range held.Checks {
				if c.Webhook != nil {
					events++
				}
			}
			if seen := held.Graph != nil; len(held.Checks) != held.Total || events != held.Total ||
				seen == gone || seen && held.Graph.Checks != held.Total || held.Total%n != 0 {
				t.Fatalf("half of it: %d checks, %d listed, %d events, %+v", held.Total, len(held.Checks), events,
					held.Graph)
			}
		}
		if err := receive(t, "the erasure", erased); err != nil {
			t.Fatal(err)
		}
	}
	verifyLedger(t, s)
}
