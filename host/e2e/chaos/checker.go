package chaos

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"slices"
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
	c.unknownOutcomes()
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
	item     Item
	account  string
	calls    int
	unknown  int       // checks whose outcome the client does not know
	records  []*Record // checks that are not erased
	erasures []Erasure
	answers  []answer
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

// subject returns the history of an entity.
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
			subject.answers = append(subject.answers, r)
		}
	}
	for _, e := range c.history.Erasures {
		subject := c.subject(e.Account, Item{Type: e.Type, Value: e.Value})
		subject.erasures = append(subject.erasures, e)
	}
}
