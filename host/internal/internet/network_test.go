package internet_test

import (
	"net/netip"
	"testing"

	"assay/host/internal/internet"
	"assay/registry/expect"
)

func TestNetwork(t *testing.T) {
	t.Parallel()
	for client, want := range map[string]string{
		"192.0.2.77/32":       "192.0.2.0/24",
		"192.0.2.77/16":       "192.0.0.0/16",
		"2001:db8:1:2::3/128": "2001:db8:1::/48",
		"2001:db8:1:2::/64":   "2001:db8:1::/48",
	} {
		expect.Equal(t, "the network of "+client, internet.Network(netip.MustParsePrefix(client)).String(), want)
	}
	expect.That(t, !internet.Network(netip.Prefix{}).IsValid(), "no client has a network")
}
