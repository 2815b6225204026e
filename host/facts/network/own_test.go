package network_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"testing"

	"assay/host/entity"
	"assay/host/facts"
	"assay/host/facts/network"
	"assay/host/facts/resolver"
	"assay/registry/expect"
)

// errorsByType is a resolver that fails with an error for each type of question.
type errorsByType map[resolver.Type]error

func (e errorsByType) Lookup(_ context.Context, q resolver.Question) (resolver.Answer, error) {
	err := e[q.Type]
	if err == nil {
		return resolver.Answer{Status: resolver.NXDomain}, nil
	}
	return resolver.Answer{}, fmt.Errorf("resolving %s: %w", q, err)
}

// TestWhoFailed checks that an error of this host's own is never reported as the silence of others, even next to one.
func TestWhoFailed(t *testing.T) {
	t.Parallel()
	type testCase struct {
		resolver   errorsByType
		unanswered bool
	}
	expect.Each(t, map[string]testCase{
		"silent servers": {errorsByType{resolver.A: resolver.ErrUnanswered, resolver.MX: resolver.ErrUnresponsive},
			true},
		"a busy host":         {errorsByType{resolver.A: resolver.ErrLate, resolver.MX: resolver.ErrUnanswered}, false},
		"a full resolver":     {errorsByType{resolver.A: resolver.ErrUnanswered, resolver.MX: resolver.ErrBusy}, false},
		"the end of the time": {errorsByType{resolver.MX: context.DeadlineExceeded}, false},
	}, func(t *testing.T, tt testCase) {
		_, err := network.NewDNS(tt.resolver).Observe(t.Context(), parse(t, entity.Domain, "example.com"),
			wanting("dns.a", "dns.mx"))
		expect.That(t, err != nil && errors.Is(err, facts.ErrUnanswered) == tt.unanswered, "dns: error %v", err)
		if tt.resolver[resolver.A] == nil {
			return
		}
		lists := network.NewNet(network.NetConfig{Resolver: tt.resolver, Logger: slog.New(slog.DiscardHandler),
			Blocklists: []network.Blocklist{{Zone: "dbl.example.org", Domains: true}}})
		_, err = lists.Observe(t.Context(), parse(t, entity.Domain, "example.com"), wanting("net.domain_listed"))
		want := errors.Is(tt.resolver[resolver.A], resolver.ErrUnanswered)
		expect.That(t, err != nil && errors.Is(err, facts.ErrUnanswered) == want, "net: error %v", err)
	})
}
