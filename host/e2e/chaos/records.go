package chaos

import (
	"fmt"
	"slices"
	"time"
)

// records compares each record of a check with the clients' history.
func (c *checker) records() {
	refs := map[string]bool{}
	for i := range c.state.Records {
		r := &c.state.Records[i]
		if !slices.ContainsFunc(c.state.Heads, func(h Head) bool { return h.Chain == r.Chain }) {
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

// unknownOutcomes compares the calls whose outcome the client does not know with their records, if their entities are
// in no other call. All checks of a batch are recorded, or none. The reference of a 500 is that of the first record.
func (c *checker) unknownOutcomes() {
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
			for _, a := range s.answers {
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
		if !r.Rotated.IsZero() && c.history.WrongClock[call.Host] { // it may see the end early or late
			r.Began, r.Done = r.Rotated, time.Time{}
		}
		switch {
		case call.Status == 200 && ever && !r.Done.IsZero() && call.Began.After(r.Done):
			c.differ("%s was answered after its key was revoked", call.Results[0].Ref)
		case call.Status == 401 && (!ever || call.Ended.Before(r.Began)):
			c.differ("a call with the valid key %s was refused", call.Key)
		}
	}
}

// usage compares quotas with the records.
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
