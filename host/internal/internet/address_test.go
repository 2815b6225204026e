package internet

import (
	"errors"
	"net"
	"net/netip"
	"net/url"
	"strings"
	"testing"

	"assay/registry/expect"
)

func TestSpecial(t *testing.T) {
	t.Parallel()
	for kind, addresses := range map[string]string{
		"": "100.63.255.255 172.15.255.255 172.32.0.1 192.0.1.1 198.17.255.255 8.8.8.8 1.1.1.1 " +
			"::ffff:8.8.8.8 2a00:1450::1 2606:4700::1111",
		"benchmark":     "198.19.255.255 2001:2::1",
		"documentation": "192.0.2.1 198.51.100.7 203.0.113.9 2001:db8::1 3fff:fff::1",
		"link_local":    "169.254.169.254 fe80::1 fe80::1%eth0",
		"loopback":      "127.0.0.1 127.255.255.254 ::1 ::ffff:127.0.0.1",
		"multicast":     "224.0.0.1 ff02::1",
		"private":       "10.255.255.255 172.16.0.1 172.31.255.255 192.168.1.1 fc00::1 fd00:ec2::254",
		"reserved": "0.1.2.3 192.0.0.1 192.88.99.1 240.0.0.1 255.255.255.255 ::7f00:1 100::1 2001:20::1 " +
			"fec0::1",
		"shared":      "100.64.0.1",
		"translated":  "64:ff9b::7f00:1 64:ff9b:1::1 2001::1 2002:7f00:1::",
		"unspecified": "0.0.0.0 ::",
	} {
		for address := range strings.FieldsSeq(addresses) {
			expect.Equal(t, "Special("+address+")", Special(netip.MustParseAddr(address)), kind)
		}
	}
	expect.Equal(t, "the zero address", Special(netip.Addr{}), "reserved")
}

func TestPublic(t *testing.T) {
	t.Parallel()
	for want, addresses := range map[bool]string{
		true: "8.8.8.8 2a00:1450::1 2606:4700::1111",
		false: "10.0.0.1 192.31.196.1 192.52.193.1 192.175.48.1 2001:1::1 2620:4f:8000::1 64:ff9b::808:808 " +
			"fe80::1%eth0 2a00:1450::1%eth0 ::ffff:8.8.8.8",
	} {
		for address := range strings.FieldsSeq(addresses) {
			expect.Equal(t, "Public("+address+")", Public(netip.MustParseAddr(address)), want)
		}
	}
	expect.That(t, !Public(netip.Addr{}), "the zero address is public")
	expect.That(t, Special(netip.MustParseAddr("192.175.48.1")) == "",
		"an infrastructure address cannot belong to a host")
}

func TestGuardedDial(t *testing.T) {
	t.Parallel()
	dial := GuardedDial(expect.Value(url.Parse("http://127.0.0.1:1234/rdap"))(t), nil)
	for address := range strings.FieldsSeq("127.0.0.1:443 127.0.0.1:1235 [::1]:443 [::ffff:127.0.0.1]:443 " +
		"10.0.0.1:443 169.254.169.254:443 [fd00:ec2::254]:443 100.64.0.1:443 0.0.0.0:443 [64:ff9b::7f00:1]:443 " +
		"93.184.215.14:80 93.184.215.14:22 localhost:443") {
		conn, err := dial(t.Context(), "tcp", address)
		if err == nil {
			conn.Close()
		}
		expect.That(t, errors.As(err, new(*net.OpError)) && strings.Contains(err.Error(), "not a public address"),
			"dial(%s) = %v, want a refusal", address, err)
	}
}

func TestNetwork(t *testing.T) {
	t.Parallel()
	for client, want := range map[string]string{
		"192.0.2.77/32":       "192.0.2.0/24",
		"192.0.2.77/16":       "192.0.0.0/16",
		"2001:db8:1:2::3/128": "2001:db8:1::/48",
		"2001:db8:1:2::/64":   "2001:db8:1::/48",
	} {
		expect.Equal(t, "the network of "+client, Network(netip.MustParsePrefix(client)).String(), want)
	}
	expect.That(t, !Network(netip.Prefix{}).IsValid(), "no client has a network")
}
