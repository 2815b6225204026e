package internet_test

import (
	"net/netip"
	"testing"

	"assay/host/internal/internet"
)

func TestNetwork(t *testing.T) {
	t.Parallel()
	for client, want := range map[string]string{
		"192.0.2.77/32":       "192.0.2.0/24",
		"192.0.2.77/16":       "192.0.0.0/16",
		"2001:db8:1:2::3/128": "2001:db8:1::/48",
		"2001:db8:1:2::/64":   "2001:db8:1::/48",
	} {
		if got := internet.Network(netip.MustParsePrefix(client)).String(); got != want {
			t.Errorf("the network of %s is %s, want %s", client, got, want)
		}
	}
	if got := internet.Network(netip.Prefix{}); got.IsValid() {
		t.Errorf("no client has the network %s", got)
	}
}
