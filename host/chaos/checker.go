package chaos

import (
	"bytes"
	"cmp"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
)

// Keys are the secrets of the hosts that the checker needs to recognise entities.
type Keys struct{ Pseudonym, Graph, Erased []byte }

// Check returns the differences between a history and the state after all hosts have finished. It finds none if
// everything that was answered is recorded once and as it was answered, nothing that was refused is recorded, and
// quotas, webhook events and the reputation graph agree with the records.
func Check(h *History, s *State, keys Keys) []string {
	c := &checker{history: h, state: s, keys: keys, accounts: map[string]*account{}, subjects: map[string]*subject{},
		answered: map[string]answer{}, live: map[string]*Record{}, tombstones: map[string]bool{}}
	for _, a := range s.Accounts {
		c.accounts[a.ID] = &account{Account: a}
	}
	c.readHistory()
	for _, head := range s.Heads {
		c.chain(head)
	}
	c.records()
	c.answers()
	c.doubts()
	c.erasures()
	c.revocations()
	c.usage()
	c.events()
	c.deliveries()
	c.graph()
	slices.Sort(c.differences)
	return c.differences
}

type checker struct {
	history     *History
	state       *State
	keys        Keys
	accounts    map[string]*account
	subjects    map[string]*subject
	answered    map[string]answer  // by reference
	live        map[string]*Record // checks that are not erased, by reference
	tombstones  map[string]bool    // of erased references
	differences []string
}

// account counts an account's checks.
type account struct {
	Account
	live           int // records of checks
	erased         int // checks that erasures erased, as they say
	erasedAnswered int // checks that were answered, and erased later
	erasedEvents   int // those of them that had an event
	exhausted      int // the smallest call that was refused for lack of quota; 0: none
}

// subject is an entity as one account knows it.
type subject struct {
	item      Item
	account   string
	calls     int
	unknown   int       // checks whose outcome the client does not know
	records   []*Record // checks that are not erased
	erasures  []Erasure
	answerers []answer
}

type answer struct {
	call *Call
	Result
	subject *subject
}

func (c *checker) differ(format string, args ...any) {
	c.differences = append(c.differences, fmt.Sprintf(format, args...))
}

// keyed returns HMAC-SHA256 over a salt, a kind and a value, each preceded by its length.
func keyed(key, salt []byte, kind, value string) string {
	mac := hmac.New(sha256.New, key)
	for _, part := range [][]byte{salt, []byte(kind), []byte(value)} {
		_ = binary.Write(mac, binary.BigEndian, uint32(len(part)))
		mac.Write(part)
	}
	return string(mac.Sum(nil))
}

// subject returns what the history says about an entity.
func (c *checker) subject(accountID string, item Item) *subject {
	var salt []byte
	if a := c.accounts[accountID]; a != nil {
		salt = a.Salt
	}
	id := accountID + keyed(c.keys.Pseudonym, salt, item.Type, item.Value)
	if c.subjects[id] == nil {
		c.subjects[id] = &subject{account: accountID, item: item}
	}
	return c.subjects[id]
}

func (c *checker) readHistory() {
	for _, call := range c.history.Calls {
		if c.accounts[call.Account] == nil {
			c.differ("the account %s is not stored", call.Account)
			c.accounts[call.Account] = &account{}
		}
		switch call.Status {
		case 0, 401:
		case 200:
			if len(call.Results) != len(call.Items) {
				c.differ("a call for %d checks was answered with %d results", len(call.Items), len(call.Results))
				continue
			}
		case 429:
			a := c.accounts[call.Account]
			if n := len(call.Items); a.exhausted == 0 || n < a.exhausted {
				a.exhausted = n
			}
		case 500:
			if call.Ref == "" {
				c.differ("a 500 has no reference")
			}
		case 503:
			if !call.RetryAfter {
				c.differ("a 503 has no Retry-After")
			}
		default:
			c.differ("a call got the unexpected status %d", call.Status)
		}
		for i, item := range call.Items {
			subject := c.subject(call.Account, item)
			subject.calls++
			if call.unknown() {
				subject.unknown++
			}
			if call.Status != 200 {
				continue
			}
			r := answer{call, call.Results[i], subject}
			if c.answered[r.Ref].call != nil {
				c.differ("%s was answered twice", r.Ref)
			}
			if r.Type != item.Type || r.Query != item.Value {
				c.differ("%s answers %s %s, not %s %s", r.Ref, r.Type, r.Query, item.Type, item.Value)
			}
			c.answered[r.Ref] = r
			subject.answerers = append(subject.answerers, r)
		}
	}
	for _, e := range c.history.Erasures {
		subject := c.subject(e.Account, Item{Type: e.Type, Value: e.Value})
		subject.erasures = append(subject.erasures, e)
	}
}

// chain verifies a chain from its beginning to its head.
func (c *checker) chain(head Head) {
	hash := sha256.Sum256(fmt.Appendf(nil, "assay audit chain %d, version 1", head.Chain))
	erasures := map[int64]ErasedRecord{}
	for _, e := range c.state.Erased {
		if e.Chain == head.Chain {
			erasures[e.Seq] = e
			c.tombstones[string(e.Ref)] = true
		}
	}
	kinds := map[int64]*Record{}
	var seq int64
	for i := range c.state.Records {
		r := &c.state.Records[i]
		if r.Chain != head.Chain {
			continue
		}
		if seq++; r.Seq != seq {
			c.differ("chain %d has record %d in place %d", head.Chain, r.Seq, seq)
			return
		}
		e, erased := erasures[seq]
		switch {
		case r.Kind == "erased" && (!erased || !bytes.Equal(e.Leaf, r.Leaf) || e.Erasure <= seq):
			c.differ("record %d of chain %d is blank, and no erasure names it", seq, head.Chain)
		case r.Kind != "erased" && erased:
			c.differ("record %d of chain %d is not blank, although an erasure names it", seq, head.Chain)
		case r.Kind != "erased" && !bytes.Equal(r.Leaf, r.leaf()):
			c.differ("record %d of chain %d (%s) does not have the content of its leaf", seq, head.Chain, r.Ref)
		}
		kinds[seq] = r
		hash = link(hash, head.Chain, seq, r.Leaf)
		if !bytes.Equal(r.Hash, hash[:]) {
			c.differ("chain %d breaks at record %d", head.Chain, seq)
			return
		}
	}
	if head.Seq != seq || !bytes.Equal(head.Hash, hash[:]) {
		c.differ("the head of chain %d is %d, and its last record %d", head.Chain, head.Seq, seq)
	}
	for _, e := range erasures {
		by := kinds[e.Erasure]
		if kinds[e.Seq] == nil || by == nil || by.Kind != "erasure" {
			c.differ("record %d of chain %d was erased by %d, which is not an erasure", e.Seq, head.Chain, e.Erasure)
		}
	}
}

// link returns the hash of a record from that of the record before.
func link(hash [sha256.Size]byte, chain int, seq int64, leaf []byte) [sha256.Size]byte {
	text := append([]byte{1}, hash[:]...)
	text = binary.BigEndian.AppendUint32(text, uint32(chain))
	text = binary.BigEndian.AppendUint64(text, uint64(seq))
	return sha256.Sum256(append(text, leaf...))
}

// leaf returns the hash of a record's content.
func (r *Record) leaf() []byte {
	text := append(append([]byte{0}, r.Nonce...), 1)
	field := func(s string) {
		text = append(binary.BigEndian.AppendUint32(text, uint32(len(s))), s...)
	}
	for _, s := range []string{r.Kind, r.At, r.Ref, r.Account, r.Key, r.Type, string(r.Pseudonym)} {
		field(s)
	}
	text = binary.BigEndian.AppendUint64(text, uint64(r.Score))
	field(r.Verdict)
	text = binary.BigEndian.AppendUint64(text, uint64(r.Revision))
	field(string(r.Digest))
	sum := sha256.Sum256(text)
	return sum[:]
}

// records compares each record of a check with what the clients know about it.
func (c *checker) records() {
	chains := map[int]bool{}
	for _, head := range c.state.Heads {
		chains[head.Chain] = true
	}
	refs := map[string]bool{}
	for i := range c.state.Records {
		r := &c.state.Records[i]
		if !chains[r.Chain] {
			c.differ("record %d belongs to chain %d, which has no head", r.Seq, r.Chain)
		}
		if r.Ref != "" && refs[r.Ref] {
			c.differ("%s is recorded twice", r.Ref)
		}
		refs[r.Ref] = true
		if r.Kind != "check" {
			continue
		}
		c.live[r.Ref] = r
		account, subject := c.accounts[r.Account], c.subjects[r.Account+string(r.Pseudonym)]
		if account == nil || subject == nil {
			c.differ("%s is a record of a check that no client asked for", r.Ref)
			continue
		}
		account.live++
		subject.records = append(subject.records, r)
		a, answered := c.answered[r.Ref]
		if !answered {
			if subject.unknown--; subject.unknown < 0 {
				c.differ("%s is a record of a check that was refused", r.Ref)
			}
			continue
		}
		if c.tombstones[keyed(c.keys.Erased, []byte(r.Account), "ref", r.Ref)] {
			c.differ("%s was erased, and its record is still there", r.Ref)
		}
		got := fmt.Sprint(r.Account, r.Key, r.Type, r.Score, r.Verdict, r.At)
		if want := fmt.Sprint(a.call.Account, a.call.Key, a.Type, a.Score, a.Verdict, a.Timestamp); got != want ||
			subject != a.subject {
			c.differ("%s is recorded as %s and was answered as %s", r.Ref, got, want)
		}
	}
}

// answers looks for answered checks without a record.
func (c *checker) answers() {
	for ref, a := range c.answered {
		if c.live[ref] != nil {
			continue
		}
		erased := c.tombstones[keyed(c.keys.Erased, []byte(a.call.Account), "ref", ref)] &&
			slices.ContainsFunc(a.subject.erasures, func(e Erasure) bool {
				return !e.Done || e.Ended.After(a.call.Began)
			})
		if !erased {
			c.differ("%s was answered and is not recorded", ref)
			continue
		}
		account := c.accounts[a.call.Account]
		account.erasedAnswered++
		if a.Verdict != "allow" {
			account.erasedEvents++
		}
	}
}

// doubts compares calls without an answer with their records, if their entities are in no other call. All checks of a
// batch are recorded, or none. If they are, the reference of a 500 is that of the first.
func (c *checker) doubts() {
	for _, call := range c.history.Calls {
		if !call.unknown() {
			continue
		}
		recorded, alone := 0, true
		for _, item := range call.Items {
			s := c.subject(call.Account, item)
			recorded += len(s.records)
			alone = alone && s.calls == 1 && len(s.erasures) == 0
		}
		if !alone || recorded == 0 {
			continue
		}
		first := c.subject(call.Account, call.Items[0]).records
		switch {
		case recorded != len(call.Items):
			c.differ("%d checks of a batch of %d are recorded", recorded, len(call.Items))
		case call.Status == 500 && first[0].Ref != call.Ref:
			c.differ("%s is the reference of a 500, and its check is recorded as %s", call.Ref, first[0].Ref)
		}
	}
}

// erasures looks for records that existed before an erasure of their subject began.
func (c *checker) erasures() {
	for _, s := range c.subjects {
		for _, e := range s.erasures {
			for _, a := range s.answerers {
				if e.Done && a.call.Ended.Before(e.Began) && c.live[a.Ref] != nil {
					c.differ("%s was erased, and its record is still there", a.Ref)
				}
			}
		}
	}
	erasers := map[[2]int64]string{} // account by chain and number
	for i := range c.state.Records {
		if r := &c.state.Records[i]; r.Kind == "erasure" {
			erasers[[2]int64{int64(r.Chain), r.Seq}] = r.Account
		}
	}
	for _, e := range c.state.ErasedChecks {
		if a := c.accounts[erasers[[2]int64{int64(e.Chain), e.Seq}]]; a != nil {
			a.erased += e.Checks
		}
	}
	unknown := map[string]int{}
	for _, s := range c.subjects {
		if len(s.erasures) > 0 {
			unknown[s.account] += s.unknown
		}
	}
	for id, a := range c.accounts {
		if n := a.erased - a.erasedAnswered; n < 0 || n > unknown[id] {
			c.differ("%d checks of %s were erased, %d of them answered, %d with an unknown outcome", a.erased, id,
				a.erasedAnswered, unknown[id])
		}
	}
}

// revocations looks for answers to revoked keys, and for refusals of valid ones.
func (c *checker) revocations() {
	revoked := map[string]Revocation{}
	for _, r := range c.history.Revocations {
		revoked[r.Key] = r
	}
	for _, call := range c.history.Calls {
		r, ever := revoked[call.Key]
		switch {
		case call.Status == 200 && ever && !r.Done.IsZero() && call.Began.After(r.Done):
			c.differ("%s was answered after its key was revoked", call.Results[0].Ref)
		case call.Status == 401 && (!ever || call.Ended.Before(r.Began)):
			c.differ("a call with the valid key %s was refused", call.Key)
		}
	}
}

// usage compares what quotas counted with the records.
func (c *checker) usage() {
	used := map[string]int{}
	for _, u := range c.state.Usage {
		used[u.Account] += u.Used
		if a := c.accounts[u.Account]; a != nil && u.Used > a.Quota {
			c.differ("%s used %d checks in %s, more than its quota %d", u.Account, u.Used, u.Period, a.Quota)
		}
	}
	for id, a := range c.accounts {
		if want := a.live + a.erased; used[id] != want {
			c.differ("%s used %d checks, and %d are recorded", id, used[id], want)
		}
		if a.exhausted > 0 && used[id]+a.exhausted <= a.Quota {
			c.differ("%s was refused %d checks for lack of quota, and used %d of %d", id, a.exhausted, used[id],
				a.Quota)
		}
	}
}

// events compares webhook events with the records.
func (c *checker) events() {
	byRef, sequences := map[string]*Event{}, map[string]map[int64]bool{}
	for i := range c.state.Events {
		e := &c.state.Events[i]
		if byRef[e.Ref] != nil {
			c.differ("%s has two events", e.Ref)
		}
		byRef[e.Ref] = e
		if sequences[e.Account] == nil {
			sequences[e.Account] = map[int64]bool{}
		}
		if sequences[e.Account][e.Sequence] {
			c.differ("two events of %s have the number %d", e.Account, e.Sequence)
		}
		sequences[e.Account][e.Sequence] = true
		if e.State != "delivered" {
			c.differ("the event of %s is %s", e.Ref, e.State)
		}
		r := c.live[e.Ref]
		if r == nil || r.Account != e.Account || !c.accounts[r.Account].Endpoint || e.Name != eventName(r.Verdict) {
			c.differ("%s has an event %s that it should not have", e.Ref, e.Name)
		}
	}
	for ref, r := range c.live {
		if a := c.accounts[r.Account]; a != nil && a.Endpoint && eventName(r.Verdict) != "" && byRef[ref] == nil {
			c.differ("%s, which has the verdict %s, has no event", ref, r.Verdict)
		}
	}
	last := map[string]int64{}
	for _, s := range c.state.Sequences {
		last[s.Account] = s.Last
	}
	for id, a := range c.accounts {
		// An erasure deletes events, also those of checks whose client got no answer.
		gaps, least, most := int(last[id])-len(sequences[id]), 0, 0
		if a.Endpoint {
			least, most = a.erasedEvents, a.erasedEvents+a.erased-a.erasedAnswered
		}
		if gaps < least || gaps > most {
			c.differ("the events of %s have %d numbers of %d, and between %d and %d were erased", id,
				len(sequences[id]), last[id], least, most)
		}
	}
}

// eventName returns the name of a verdict's webhook event.
func eventName(verdict string) string {
	switch verdict {
	case "block":
		return "check.blocked"
	case "review":
		return "check.review"
	}
	return ""
}

// deliveries compares what receivers got with the events and the records.
func (c *checker) deliveries() {
	first := map[string]Delivery{}
	for _, d := range c.history.Deliveries {
		if !d.Signed {
			c.differ("the event of %s was delivered without a valid signature", d.Ref)
		}
		before, again := first[d.Ref]
		if again && (d.Body != before.Body || d.Sequence != before.Sequence || d.Event != before.Event) {
			c.differ("the event of %s was delivered with different content", d.Ref)
		}
		first[d.Ref] = d
	}
	for ref, d := range first {
		r := c.live[ref]
		if r == nil {
			if !c.tombstones[keyed(c.keys.Erased, []byte(d.Account), "ref", ref)] {
				c.differ("an event of %s was delivered, which is not recorded", ref)
			}
			continue
		}
		var body struct {
			Event, Timestamp string
			Data             Result
		}
		err := json.Unmarshal([]byte(d.Body), &body)
		name := eventName(r.Verdict)
		got := fmt.Sprint(d.Account, d.Event, body.Event, body.Timestamp, strings.ToLower(body.Data.Verdict),
			body.Data.Type, body.Data.Score, body.Data.Ref)
		want := fmt.Sprint(r.Account, name, name, r.At, r.Verdict, r.Type, r.Score, r.Ref)
		if err != nil || got != want {
			c.differ("the event of %s was delivered as %s, and its record is %s", ref, d.Body, want)
		}
	}
	for _, e := range c.state.Events {
		if d, ok := first[e.Ref]; !ok || d.Sequence != e.Sequence {
			c.differ("the event of %s was not delivered, or with another number", e.Ref)
		}
	}
}

// graph compares the reputation graph with the records.
func (c *checker) graph() {
	if c.state.Waiting > 0 || c.state.Damaged > 0 {
		c.differ("%d contributions to the graph were not applied, and %d could not be read", c.state.Waiting,
			c.state.Damaged)
	}
	nodes, edges, names := map[string]int{}, map[string]int{}, map[string]string{}
	node := func(kind, value string) (name string) {
		name = keyed(c.keys.Graph, nil, kind, value)
		names[name] = kind + " " + value
		return name
	}
	for _, s := range c.subjects {
		n, own := len(s.records), node(s.item.Type, s.item.Value)
		nodes[s.account+own] += n
		for _, p := range s.item.Parents {
			parent := node(p.Kind, p.Value)
			nodes[s.account+parent] += n
			edges[s.account+own+parent] += n
			edges[s.account+parent+own] += n
		}
	}
	for _, g := range c.state.Sightings {
		nodes[g.Account+string(g.Node)] -= g.Checks
	}
	for _, g := range c.state.Edges {
		edges[g.Account+string(g.Node)+string(g.Other)] -= g.Checks
	}
	split := func(id string) (rest, name string) {
		rest, name = id[:len(id)-sha256.Size], id[len(id)-sha256.Size:]
		return rest, cmp.Or(names[name], fmt.Sprintf("an unknown node %x", name))
	}
	for id, n := range nodes {
		if n != 0 {
			account, name := split(id)
			c.differ("the graph counts %d checks too few of %s of %s", n, name, account)
		}
	}
	for id, n := range edges {
		if n != 0 {
			rest, other := split(id)
			account, name := split(rest)
			c.differ("the graph counts %d links too few of %s and %s of %s", n, name, other, account)
		}
	}
}
