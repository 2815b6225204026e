package apikey

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
)

// Scope is a group of endpoints that a key can be limited to.
type Scope string

// The scopes.
const (
	ScopeCheck     Scope = "check"     // single checks
	ScopeBatch     Scope = "batch"     // batches of checks
	ScopeEvents    Scope = "events"    // the account's webhook events and recorded checks
	ScopeFeedback  Scope = "feedback"  // feedback on checks
	ScopeOverrides Scope = "overrides" // verdicts set in advance
	ScopePrivacy   Scope = "privacy"   // exports and erasures of a subject's data
)

// Scopes returns all scopes.
func Scopes() []Scope {
	return []Scope{ScopeCheck, ScopeBatch, ScopeEvents, ScopeFeedback, ScopeOverrides, ScopePrivacy}
}

// ParseScopes returns the scopes with the given names, each once and in the order of Scopes. It returns nil, which
// means every scope, if there are no names.
func ParseScopes(names []string) ([]Scope, error) {
	var scopes []Scope
	for _, name := range names {
		if !slices.Contains(Scopes(), Scope(name)) {
			return nil, fmt.Errorf("unknown scope %.40q; the scopes are %s", name, JoinScopes(Scopes()))
		}
	}
	for _, s := range Scopes() {
		if slices.Contains(names, string(s)) {
			scopes = append(scopes, s)
		}
	}
	return scopes, nil
}

// JoinScopes returns the names of scopes for a text: "check, batch and events".
func JoinScopes(scopes []Scope) string {
	names := make([]string, len(scopes))
	for i, s := range scopes {
		names[i] = string(s)
	}
	if n := len(names); n > 1 {
		return strings.Join(names[:n-1], ", ") + " and " + names[n-1]
	}
	return strings.Join(names, "")
}

// Limits restrict what a key can do. They never change. The zero value restricts nothing.
type Limits struct {
	Scopes   []Scope        `json:"scopes"`   // nil: all, including scopes of later releases
	Networks []netip.Prefix `json:"networks"` // of the addresses that may use the key; nil: all
	Test     bool           `json:"test"`     // checks get fixed answers and are not recorded; no other scope works
}

// Permits reports whether the key has a scope.
func (l Limits) Permits(s Scope) bool {
	if l.Test && s != ScopeCheck && s != ScopeBatch {
		return false
	}
	return l.Scopes == nil || slices.Contains(l.Scopes, s)
}

// Admits reports whether the key may be used from an address. The zero Addr is an unknown one.
func (l Limits) Admits(addr netip.Addr) bool {
	return l.Networks == nil || slices.ContainsFunc(l.Networks, func(p netip.Prefix) bool { return p.Contains(addr) })
}

// MaxNetworks is the maximum number of networks that a key can be limited to.
const MaxNetworks = 50

// ParseNetworks returns the networks that are given in CIDR notation or as single addresses, IPv4 or IPv6. It returns
// nil, which means every address, if there are no texts.
func ParseNetworks(texts []string) ([]netip.Prefix, error) {
	if len(texts) > MaxNetworks {
		return nil, fmt.Errorf("a key can be limited to at most %d networks", MaxNetworks)
	}
	var networks []netip.Prefix
	for _, text := range texts {
		network, err := parseNetwork(text)
		if err != nil {
			return nil, err
		}
		if !slices.Contains(networks, network) {
			networks = append(networks, network)
		}
	}
	return networks, nil
}

// parseNetwork rejects a prefix that has address bits after its length, because it is ambiguous: 192.0.2.7/24 could be
// the address or the network.
func parseNetwork(text string) (netip.Prefix, error) {
	if addr, err := netip.ParseAddr(text); err == nil && addr.Zone() == "" {
		addr = addr.Unmap()
		return netip.PrefixFrom(addr, addr.BitLen()), nil
	}
	network, err := netip.ParsePrefix(text)
	if err != nil || network.Addr().Is4In6() {
		return netip.Prefix{}, fmt.Errorf("%.60q is neither an address nor a network such as 192.0.2.0/24 or "+
			"2001:db8::/32", text)
	}
	if masked := network.Masked(); masked != network {
		return netip.Prefix{}, fmt.Errorf("%q has address bits after the prefix: the network is %s, the address %s",
			text, masked, network.Addr())
	}
	return network, nil
}
