package internet

import (
	"net/netip"
	"testing"

	"assay/registry/expect"
)

func TestSpecial(t *testing.T) {
	t.Parallel()
	cases := map[string]string{
		"0.0.0.0": "unspecified", "0.1.2.3": "reserved", "10.255.255.255": "private", "100.63.255.255": "",
		"100.64.0.1": "shared",
		"127.0.0.1":  "loopback", "127.255.255.254": "loopback", "169.254.169.254": "link_local", "172.15.255.255": "",
		"172.16.0.1": "private", "172.31.255.255": "private", "172.32.0.1": "", "192.0.0.1": "reserved",
		"192.0.1.1": "",
		"192.0.2.1": "documentation", "192.88.99.1": "reserved", "192.168.1.1": "private", "198.17.255.255": "",
		"198.19.255.255": "benchmark", "198.51.100.7": "documentation", "203.0.113.9": "documentation",
		"224.0.0.1": "multicast",
		"240.0.0.1": "reserved", "255.255.255.255": "reserved", "8.8.8.8": "", "1.1.1.1": "",
		"::": "unspecified", "::1": "loopback", "::ffff:127.0.0.1": "loopback", "::ffff:8.8.8.8": "",
		"::7f00:1":        "reserved",
		"64:ff9b::7f00:1": "translated", "64:ff9b:1::1": "translated", "100::1": "reserved", "2001::1": "translated",
		"2001:20::1": "reserved", "2001:2::1": "benchmark", "2001:db8::1": "documentation",
		"2002:7f00:1::": "translated",
		"3fff:fff::1":   "documentation", "fc00::1": "private", "fd00:ec2::254": "private", "fe80::1": "link_local",
		"fe80::1%eth0": "link_local", "fec0::1": "reserved", "ff02::1": "multicast", "2a00:1450::1": "",
		"2606:4700::1111": "",
	}
	for text, want := range cases {
		expect.Equal(t, "Special("+text+")", Special(netip.MustParseAddr(text)), want)
	}
	expect.Equal(t, "the zero address", Special(netip.Addr{}), "reserved")
}

func TestPublic(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]bool{
		"8.8.8.8": true, "2a00:1450::1": true, "2606:4700::1111": true,
		"10.0.0.1": false, "192.31.196.1": false, "192.52.193.1": false, "192.175.48.1": false, "2001:1::1": false,
		"2620:4f:8000::1": false, "64:ff9b::808:808": false, "fe80::1%eth0": false, "2a00:1450::1%eth0": false,
		"::ffff:8.8.8.8": false,
	} {
		expect.Equal(t, "Public("+text+")", Public(netip.MustParseAddr(text)), want)
	}
	expect.That(t, !Public(netip.Addr{}), "the zero address is public")
	expect.That(t, Special(netip.MustParseAddr("192.175.48.1")) == "",
		"an infrastructure address cannot belong to a host")
}
