package resolver

import (
	"context"
	"crypto/rand"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync"
)

// ErrUntrusted means that every configured server gives false answers, so none is used.
var ErrUntrusted = fmt.Errorf("%w truthfully: the servers give false answers", ErrUnanswered)

// trust is the set of servers whose answers are used. It is immutable. A cached answer is used only under the trust
// that it was received under, so that the cache does not serve a lie.
type trust struct {
	servers  []string
	problems []string // for each configured server, a sentence about why it is excluded, or ""
}

// The canaries are questions to which every honest resolver has the same answer. They cost registries little: resolvers
// answer the first and third themselves or from their cache.
var (
	// existing names have the records of the type. RFC 8880 fixes the first; the second is the largest registry.
	existing = []Question{{"ipv4only.arpa.", A}, {"com.", NS}}
	// Nothing exists below these zones: the first is reserved for that (RFC 6761 section 6.4). Servers that redirect
	// typing errors may exempt it, but not the second, which is reserved for documentation (section 6.5).
	empty = []string{"invalid.", "example.com."}
)

// RandomLabel returns a label that cannot have been registered or guessed.
func RandomLabel() string { return strings.ToLower(rand.Text()) }

// Verify asks every server the canaries, and from then on uses only servers that neither answer for names that do not
// exist, as captive portals do, nor deny names that exist. A server that does not answer them keeps its status.
func (r *Resolver) Verify(ctx context.Context) {
	before, next := r.trust.Load(), &trust{problems: make([]string, len(r.cfg.Servers))}
	var asked sync.WaitGroup
	for i, server := range r.cfg.Servers {
		asked.Go(func() { next.problems[i] = r.verify(ctx, server, before.problems[i]) })
	}
	asked.Wait()
	for i, server := range r.cfg.Servers {
		if next.problems[i] == "" {
			next.servers = append(next.servers, server)
		}
	}
	if !slices.Equal(next.problems, before.problems) { // replacing trust with an equal one would only empty the cache
		r.trust.Store(next)
	}
}

// Problems returns a sentence for each server that gives false answers.
func (r *Resolver) Problems() []string {
	return slices.DeleteFunc(slices.Clone(r.trust.Load().problems), func(s string) bool { return s == "" })
}

// verify returns the sentence for a server that gives false answers, or "". If the answers prove neither, it returns
// before.
func (r *Resolver) verify(ctx context.Context, server, before string) string {
	ctx, cancel := context.WithTimeout(ctx, r.cfg.ProbeInterval)
	defer cancel()
	questions := slices.Clone(existing)
	for _, zone := range empty {
		questions = append(questions, Question{RandomLabel() + "." + zone, A})
	}
	statuses := make([]Status, len(questions)) // "" without an answer
	var asked sync.WaitGroup
	for i, q := range questions {
		asked.Go(func() {
			m, err := attempt(ctx, server, q, func(net.Conn) {})
			if err != nil {
				return
			}
			if a, _, err := decode(q, m); err == nil && a.Status != ServFail {
				statuses[i] = a.Status
			}
		})
	}
	asked.Wait()
	exist, missing := statuses[:len(existing)], statuses[len(existing):]
	answered := func(s Status) bool { return s != "" }
	switch {
	case slices.Contains(missing, OK):
		return "the DNS server " + server + " answers for names that do not exist"
	case !slices.Contains(exist, OK) && !slices.Contains(exist, ""):
		return "the DNS server " + server + " denies names that exist"
	case slices.Contains(exist, OK) && slices.ContainsFunc(missing, answered):
		return ""
	}
	return before
}
