package chaos

import (
	"encoding/json"
	"fmt"
	"strings"
)

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

// deliveries compares received events with the stored events and the records.
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
