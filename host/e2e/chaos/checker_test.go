package chaos

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"assay/host/audit"
	"assay/registry/expect"
)

var keys = Keys{Pseudonym: []byte("pseudonym key"), Graph: []byte("graph key"), Erased: []byte("erased key")}

// at returns a time of the history.
func at(second int) time.Time { return time.Date(2031, 5, 20, 12, 0, second, 0, time.UTC) }

// world is a history and the state that belongs to it.
type world struct {
	*History
	*State
}

// newWorld returns a world without differences. Account a has an endpoint, b no quota left, c erased what it had
// checked. Records: 1, 2 single; 3 to 5 a batch; 6 not answered; 7, 8 of b; 9 erased, 10 its erasure; 11 of c; 12 a
// lineup.
func newWorld() world {
	w := world{&History{}, &State{Accounts: []Account{
		{ID: "a", Salt: []byte("salt a"), Quota: 100, Endpoint: true},
		{ID: "b", Salt: []byte("salt b"), Quota: 2}, {ID: "c", Salt: []byte("salt c"), Quota: 100, Endpoint: true},
	}}}
	w.call("a", 0, 200, "allow", "one.example.com")
	w.call("a", 1, 200, "block", "two.example.com")
	w.call("a", 2, 200, "review", "three.example.com", "four.example.com", "five.example.com")
	w.call("a", 3, 0, "block", "six.example.com")
	w.call("b", 4, 200, "block", "one.example.com")
	w.call("b", 5, 200, "block", "one.example.com")
	w.call("b", 6, 429, "", "seven.example.com")
	w.call("a", 7, 503, "", "eight.example.com")
	w.call("a", 8, 0, "", "nine.example.com", "ten.example.com") // not recorded
	w.call("c", 9, 200, "block", "erased.example.com")
	gone := &w.Records[8]
	w.deliver(gone, 1)
	tombstone := audit.Pseudonym(keys.Erased, []byte("c"), "ref", gone.Ref)
	*gone = Record{Kind: "erased", Leaf: gone.leaf()}
	Add(w.History, &w.Erasures, Erasure{Account: "c", Type: "domain", Value: "erased.example.com", Began: at(10),
		Ended: at(11), Done: true})
	w.Erased = []ErasedRecord{{Seq: 9, Erasure: 10, Leaf: gone.Leaf, Ref: tombstone}}
	w.ErasedChecks = []ErasedChecks{{Seq: 10, Checks: 1}}
	w.Records = append(w.Records, Record{Kind: "erasure", At: "12:00", Ref: "erasure_1", Account: "c"})
	w.call("c", 12, 200, "review", "erased.example.com")
	w.Records = append(w.Records, Record{Kind: "lineup", Revision: 7, Digest: []byte("digest")})
	w.call("a", 20, 401, "", "eleven.example.com")
	w.Calls[len(w.Calls)-1].Key = "old key"
	Add(w.History, &w.Revocations, Revocation{Key: "old key", Began: at(18), Done: at(19)})
	// A host whose clock is ahead refuses a rotated key before its time.
	w.WrongClock = map[int]bool{3: true}
	w.call("a", 22, 401, "", "twelve.example.com")
	w.Calls[len(w.Calls)-1].Key, w.Calls[len(w.Calls)-1].Host = "rotated key", 3
	Add(w.History, &w.Revocations, Revocation{Key: "rotated key", Began: at(30), Done: at(30), Rotated: at(21)})
	w.derive()
	return w
}

// call adds a call of one second and the records of its checks, unless the verdict is empty.
func (w *world) call(account string, second, status int, verdict string, domains ...string) {
	c := &Call{Account: account, Key: "key of " + account, Began: at(second), Ended: at(second + 1), Status: status,
		RetryAfter: status == 503}
	score := map[string]int{"allow": 5, "review": 50, "block": 95}[verdict]
	for _, domain := range domains {
		c.Items = append(c.Items, Item{"domain", domain, []Node{{"registrable", "example.com"}}})
		if verdict == "" {
			continue
		}
		i := slices.IndexFunc(w.Accounts, func(a Account) bool { return a.ID == account })
		r := Record{Kind: "check", At: at(second).Format(time.RFC3339), Ref: fmt.Sprintf("chk_%d", len(w.Records)+1),
			Account: account, Key: c.Key, Type: "domain", Score: score, Verdict: verdict, Revision: 7,
			Pseudonym: audit.Pseudonym(keys.Pseudonym, w.Accounts[i].Salt, "domain", domain), Nonce: []byte("nonce")}
		w.Records = append(w.Records, r)
		if status == 200 {
			c.Results = append(c.Results, Result{Score: score, Verdict: verdict, Type: "domain", Query: domain,
				Timestamp: r.At, Ref: r.Ref})
		}
	}
	Add(w.History, &w.Calls, c)
}

// derive sets what follows from the records: the chain, quotas, events and the graph.
func (w *world) derive() {
	w.chain()
	used, last, seen := map[string]int{"c": 1}, map[string]int64{"c": 1}, map[string]int{}
	for i := range w.Records {
		r := &w.Records[i]
		if r.Kind != "check" {
			continue
		}
		used[r.Account]++
		seen[r.Account+" domain "+w.domainOf(r)]++
		seen[r.Account+" registrable example.com"]++
		if name := eventName(r.Verdict); name != "" && r.Account != "b" {
			last[r.Account]++
			w.Events = append(w.Events, Event{r.Ref, r.Account, name, "delivered", last[r.Account]})
			w.deliver(r, last[r.Account])
		}
	}
	for account, n := range used {
		w.Usage = append(w.Usage, Usage{account, "2031-05-01", n})
		w.Sequences = append(w.Sequences, Sequence{account, last[account]})
	}
	parent := audit.Pseudonym(keys.Graph, nil, "registrable", "example.com")[:nodeBytes]
	for node, n := range seen {
		f := strings.Fields(node)
		name := audit.Pseudonym(keys.Graph, nil, f[1], f[2])[:nodeBytes]
		w.Sightings = append(w.Sightings, Sighting{name, f[0], f[1], n})
		if f[1] == "domain" {
			w.Edges = append(w.Edges, Edge{name, parent, f[0], n}, Edge{parent, name, f[0], n})
		}
	}
	slices.SortFunc(w.Usage, func(x, y Usage) int { return strings.Compare(x.Account, y.Account) })
	slices.SortFunc(w.Sequences, func(x, y Sequence) int { return strings.Compare(x.Account, y.Account) })
	slices.SortFunc(w.Sightings, func(x, y Sighting) int {
		return strings.Compare(x.Account+x.Kind+string(x.Node), y.Account+y.Kind+string(y.Node))
	})
}

// domainOf returns the domain that a record is about.
func (w *world) domainOf(r *Record) string {
	for _, c := range w.Calls {
		for _, item := range c.Items {
			p := audit.Pseudonym(keys.Pseudonym, []byte("salt "+r.Account), item.Type, item.Value)
			if c.Account == r.Account && bytes.Equal(p, r.Pseudonym) {
				return item.Value
			}
		}
	}
	panic("the record " + r.Ref + " is of no call")
}

// chain numbers and chains the records.
func (w *world) chain() {
	head := audit.Genesis(0)
	for i := range w.Records {
		r := &w.Records[i]
		if r.Kind != "erased" {
			leaf := audit.Leaf(r.Nonce, audit.Record{Kind: audit.Kind(r.Kind), At: r.At, Ref: r.Ref, Account: r.Account,
				Key: r.Key, Type: r.Type, Pseudonym: r.Pseudonym, Score: r.Score, Verdict: r.Verdict,
				Revision: r.Revision, Digest: r.Digest})
			r.Leaf = leaf[:]
		}
		head = head.Next(audit.Hash(r.Leaf))
		r.Seq, r.Hash = head.Seq, bytes.Clone(head.Hash[:])
	}
	w.Heads = []Head{{0, head.Seq, head.Hash[:]}}
}

// deliver delivers the event of a record.
func (w *world) deliver(r *Record, sequence int64) {
	body := fmt.Sprintf(`{"event":%q,"timestamp":%q,"data":{"verdict":%q,"type":"domain","score":%d,"ref":%q}}`,
		eventName(r.Verdict), r.At, strings.ToUpper(r.Verdict), r.Score, r.Ref)
	Add(w.History, &w.Deliveries, Delivery{Account: r.Account, Ref: r.Ref, Event: eventName(r.Verdict),
		Sequence: sequence, Body: body, Signed: true})
}

func TestNoDifferences(t *testing.T) {
	t.Parallel()
	w := newWorld()
	expect.Equal(t, "differences", strings.Join(Check(w.History, w.State, keys), "\n"), "")
}

// TestDifferences alters a history and its state in every way that the checker must notice.
func TestDifferences(t *testing.T) {
	t.Parallel()
	type testCase struct {
		alter func(w *world)
		want  string
	}
	expect.Each(t, map[string]testCase{
		"an answered check's record is lost": {func(w *world) {
			w.Records = slices.Delete(w.Records, 1, 2)
			w.Erased[0].Seq, w.Erased[0].Erasure, w.ErasedChecks[0].Seq = 8, 9, 9
			w.chain()
		}, "chk_2 was answered and is not recorded"},
		"the last record is lost":       {func(w *world) { w.Records = w.Records[:11] }, "the head of chain 0 is 12"},
		"a record in the chain is lost": {func(w *world) { w.Records = slices.Delete(w.Records, 1, 2) }, "in place 2"},
		"a record is doubled": {func(w *world) { w.Records = append(w.Records, w.Records[0]); w.chain() },
			"chk_1 is recorded twice"},
		"a check without an answer is recorded twice": {func(w *world) {
			w.Records = append(w.Records, w.Records[5])
			w.Records[12].Ref = "chk_13"
			w.chain()
		}, "chk_13 is a record of a check that was refused"},
		"a refused check is recorded": {func(w *world) { w.Calls[0].Status = 503 },
			"chk_1 is a record of a check that was refused"},
		"a check that nobody made is recorded": {func(w *world) { w.Calls[0].Items[0].Value = "other.example.com" },
			"chk_1 is a record of a check that no client asked for"},
		"half a batch is recorded": {func(w *world) {
			w.Calls[2].Status, w.Calls[2].Results = 0, nil
			w.Records[3].Pseudonym = w.Records[2].Pseudonym
			w.Records = slices.Delete(w.Records, 4, 5)
		}, "2 checks of a batch of 3 are recorded"},
		"a 500 has another reference": {func(w *world) { w.Calls[3].Status, w.Calls[3].Ref = 500, "chk_0" },
			"chk_0 is the reference of a 500, and its check is recorded as chk_6"},
		"a score is changed": {func(w *world) { w.Records[0].Score++ }, "does not have the content of its leaf"},
		"a score is changed with the chain": {func(w *world) { w.Records[0].Score++; w.chain() },
			"chk_1 is recorded as"},
		"two records are exchanged": {func(w *world) {
			w.Records[0].Pseudonym, w.Records[1].Pseudonym = w.Records[1].Pseudonym, w.Records[0].Pseudonym
			w.chain()
		}, "chk_1 is recorded as"},
		"a reference is answered twice": {func(w *world) { w.Calls[0].Results[0].Ref = "chk_2" },
			"chk_2 was answered twice"},
		"another entity is answered": {func(w *world) { w.Calls[0].Results[0].Query = "x" }, "chk_1 answers domain x"},
		"a link is changed": {func(w *world) { w.Records[3].Hash = w.Records[4].Hash },
			"chain 0 breaks at record 4"},
		"a chain without a head": {func(w *world) { w.Records = append(w.Records, Record{Chain: 1, Seq: 1}) },
			"belongs to chain 1, which has no head"},
		"a record is blanked": {func(w *world) {
			w.Records[0] = Record{Seq: 1, Kind: "erased", Leaf: w.Records[0].Leaf, Hash: w.Records[0].Hash}
		}, "record 1 of chain 0 is blank"},
		"an erasure is not recorded": {func(w *world) { w.Records[9].Kind = "lineup"; w.chain() },
			"which is not an erasure"},
		"an erasure comes before its record": {func(w *world) { w.Erased[0].Erasure = 8 },
			"record 9 of chain 0 is blank"},
		"an erased record is still there": {func(w *world) {
			w.Records[8] = Record{Kind: "check", Account: "c", Ref: "chk_9", Pseudonym: w.Records[10].Pseudonym}
			w.chain()
		}, "chk_9 was erased, and its record is still there"},
		"a record is erased that nobody wanted erased": {func(w *world) { w.Erasures = nil },
			"chk_9 was answered and is not recorded"},
		"a record outlives its erasure": {func(w *world) {
			e := Erasure{Account: "a", Type: "domain", Value: "one.example.com", Began: at(5), Ended: at(6), Done: true}
			Add(w.History, &w.Erasures, e)
		}, "chk_1 was erased, and its record is still there"},
		"a check without an outcome was erased with others": {func(w *world) {
			w.call("c", 13, 0, "", "other.example.com")
			w.ErasedChecks[0].Checks = 2
		}, "2 checks of c were erased, 1 of them answered, 0 with an unknown outcome"},
		"an erasure erased more than it says": {func(w *world) { w.ErasedChecks[0].Checks = 2 },
			"2 checks of c were erased, 1 of them answered"},
		"a check is counted twice": {func(w *world) { w.Usage[0].Used++ }, "a used 7 checks, and 6 are recorded"},
		"a quota is exceeded":      {func(w *world) { w.Accounts[1].Quota = 1 }, "more than its quota 1"},
		"a quota ends early": {func(w *world) { w.Accounts[1].Quota = 3 },
			"b was refused 1 checks for lack of quota"},
		"an event is lost": {func(w *world) { w.Events = w.Events[1:] },
			"chk_2, which has the verdict block, has no event"},
		"an event without a record": {func(w *world) { w.Events[0].Ref = "chk_0" },
			"chk_0 has an event check.blocked that it should not have"},
		"an event of a check that was allowed": {func(w *world) {
			w.Events = append(w.Events, Event{"chk_1", "a", "check.blocked", "delivered", 6})
		}, "chk_1 has an event"},
		"an event of an account without an endpoint": {func(w *world) { w.Accounts[0].Endpoint = false },
			"chk_2 has an event check.blocked that it should not have"},
		"an event is doubled": {func(w *world) { w.Events = append(w.Events, w.Events[0]) }, "chk_2 has two events"},
		"an event is pending": {func(w *world) { w.Events[0].State = "pending" }, "the event of chk_2 is pending"},
		"a gap in the numbers of events": {func(w *world) { w.Events[4].Sequence++; w.Sequences[0].Last++ },
			"the events of a have 5 numbers of 6"},
		"a number of two events": {func(w *world) { w.Events[1].Sequence = 1 },
			"two events of a have the number 1"},
		"an event was not delivered":        {func(w *world) { w.Deliveries = w.Deliveries[:5] }, "was not delivered"},
		"an event was delivered unsigned":   {func(w *world) { w.Deliveries[1].Signed = false }, "valid signature"},
		"an event was delivered unrecorded": {func(w *world) { w.Deliveries[1].Ref = "chk_0" }, "chk_0 was delivered"},
		"an event was delivered with different bodies": {func(w *world) {
			d := w.Deliveries[1]
			d.Body += " "
			Add(w.History, &w.Deliveries, d)
		}, "with different content"},
		"an event was delivered with another score": {func(w *world) {
			w.Deliveries[1].Body = strings.Replace(w.Deliveries[1].Body, "95", "94", 1)
		}, "the event of chk_2 was delivered as"},
		"an event was delivered with another number": {func(w *world) { w.Deliveries[1].Sequence = 9 },
			"the event of chk_2 was not delivered, or with another number"},
		"the graph counts a check twice": {func(w *world) { w.Sightings[0].Checks++ },
			"differs by +1 from the records"},
		"the graph has another node": {func(w *world) {
			w.Sightings = append(w.Sightings, Sighting{bytes.Repeat([]byte("x"), nodeBytes), "c", "domain", 1})
		}, "the number of checks of an unknown node 7878"},
		"the graph counts a link twice":  {func(w *world) { w.Edges[0].Checks++ }, "differs by +1 from the records"},
		"the graph has no link back":     {func(w *world) { w.Edges = w.Edges[1:] }, "the number of links"},
		"a contribution was not read":    {func(w *world) { w.Damaged = 1 }, "1 could not be read"},
		"a contribution was not applied": {func(w *world) { w.Waiting = 1 }, "1 contributions to the graph"},
		"a revoked key was answered": {func(w *world) { w.Calls[0].Key = "old key"; w.Calls[0].Began = at(30) },
			"chk_1 was answered after its key was revoked"},
		"a valid key was refused": {func(w *world) { w.Revocations = nil },
			"a call with the valid key old key was refused"},
		"a rotated key was refused before its time": {func(w *world) { w.Calls[len(w.Calls)-1].Host = 0 },
			"a call with the valid key rotated key was refused"},
		"an unexpected status":      {func(w *world) { w.Calls[7].Status = 504 }, "the unexpected status 504"},
		"a 500 without a reference": {func(w *world) { w.Calls[8].Status = 500 }, "a 500 has no reference"},
		"a 503 without Retry-After": {func(w *world) { w.Calls[7].RetryAfter = false }, "a 503 has no Retry-After"},
		"a result is missing":       {func(w *world) { w.Calls[0].Results = nil }, "was answered with 0 results"},
		"an account is not stored":  {func(w *world) { w.Accounts = w.Accounts[1:] }, "the account a is not stored"},
	}, func(t *testing.T, test testCase) {
		w := newWorld()
		test.alter(&w)
		found := Check(w.History, w.State, keys)
		expect.That(t, slices.ContainsFunc(found, func(d string) bool { return strings.Contains(d, test.want) }),
			"no difference contains %q:\n%s", test.want, strings.Join(found, "\n"))
	})
}
