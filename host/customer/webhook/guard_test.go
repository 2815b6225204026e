package webhook

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/miekg/dns"

	"assay/host/store/storetest"
	"assay/registry/expect"
)

// forbidden are addresses of every kind that must not be called.
var forbidden = strings.Fields(`
	0.0.0.0 0.1.2.3 127.0.0.1 127.255.255.254 10.0.0.1 10.255.255.255 100.64.0.1 100.127.255.255 169.254.169.254
	169.254.0.1 172.16.0.1 172.31.255.255 192.0.0.1 192.0.0.170 192.0.2.1 192.31.196.1 192.52.193.1 192.88.99.1
	192.168.0.1 192.168.255.255 192.175.48.1 198.18.0.1 198.19.255.255 198.51.100.1 203.0.113.1 224.0.0.1
	239.255.255.255 240.0.0.1 255.255.255.255
	:: ::1 ::127.0.0.1 ::8.8.8.8 ::ffff:127.0.0.1 ::ffff:10.0.0.1 ::ffff:169.254.169.254 ::ffff:0:127.0.0.1
	64:ff9b::7f00:1 64:ff9b::808:808 64:ff9b:1::1 100::1 fc00::1 fd00:ec2::254 fdff::1 fe80::1 fe80::1%eth0 fec0::1
	ff02::1 ff0e::1 2001::1 2001:0:7f00:1:: 2001:2::1 2001:10::1 2001:20::1 2001:1ff::1 2001:db8::1 2001:db8:ffff::1
	2002:7f00:1:: 2002:808:808:: 2620:4f:8000::1 3fff::1 5f00::1 4000::1 1::1`)

var reachable = strings.Fields(`
	1.1.1.1 8.8.8.8 9.255.255.255 11.0.0.0 100.63.255.255 100.128.0.0 126.255.255.255 128.0.0.1 169.253.255.255
	172.15.255.255 172.32.0.0 192.0.1.1 192.167.255.255 198.17.255.255 198.20.0.0 223.255.255.255
	::ffff:8.8.8.8 2001:200::1 2001:4860:4860::8888 2606:4700::1111 2a00::1 3ffe::1 2003::1 2001:db7::1`)

func TestGuard(t *testing.T) {
	t.Parallel()
	g := newGuard(t, "127.0.0.0/8", "::ffff:192.168.1.0/120", "fd00::/8")
	g.own = []netip.Addr{netip.MustParseAddr("8.8.4.4")} // as on a host with a public address
	for test, addresses := range map[struct{ secure, allowed bool }]string{
		{true, true}:   "8.8.8.8:443 8.8.8.8:8443",
		{false, false}: "8.8.8.8:80 8.8.8.8:443 [fd00::7%eth0]:80", // http, also on the port of https, and a zone
		// Allowed networks, of IPv4-mapped addresses and of IPv6 too.
		{false, true}: "127.0.0.1:6379 [::ffff:127.0.0.1]:80 192.168.1.7:80 [fd00::7]:80",
		// The port of Postgres, this machine's public address, an address next to an allowed network, and an allowed
		// one as NAT64, 6to4, Teredo and IPv4-compatible.
		{true, false}: "8.8.8.8:5432 8.8.4.4:443 192.168.2.7:443 [64:ff9b::127.0.0.1]:443 [2002:7f00:1::]:443 " +
			"[2001:0:7f00:1::]:443 [::127.0.0.1]:443",
	} {
		for to := range strings.FieldsSeq(addresses) {
			err := g.check(netip.MustParseAddrPort(to), test.secure)
			expect.That(t, (err == nil) == test.allowed, "%s, secure %t: %v", to, test.secure, err)
		}
	}
	strict := newGuard(t)
	for _, text := range reachable {
		expect.Equal(t, text, strict.check(netip.AddrPortFrom(netip.MustParseAddr(text), 443), true), nil)
	}
	own, err := net.InterfaceAddrs()
	expect.That(t, err == nil && len(strict.own) == len(own), "the guard has %d of %d own addresses, %v",
		len(strict.own), len(own), err)
}

// errDialled replaces a connection that the guard permitted.
var errDialled = errors.New("dialled")

// countingSender returns a sender that does not connect, and the number of connections that its guard permitted.
func countingSender(g *Guard, resolver *net.Resolver) (*sender, *atomic.Int32) {
	var dialled atomic.Int32
	dialer := func(secure bool) *net.Dialer {
		d := g.dialer(resolver, secure)
		check := d.ControlContext
		d.ControlContext = func(ctx context.Context, network, address string, c syscall.RawConn) error {
			if err := check(ctx, network, address, c); err != nil {
				return err
			}
			dialled.Add(1)
			return errDialled
		}
		return d
	}
	return &sender{secure: newClient(dialer(true), nil), plain: newClient(dialer(false), nil), timeout: time.Minute,
		now: time.Now, log: storetest.Discard()}, &dialled
}

// No forbidden address is dialled, whether written in the URL or resolved by a real DNS server, with https or http.
func TestForbiddenAddressesAreNotDialled(t *testing.T) {
	t.Parallel()
	zone := `
		public.test. 60 IN A 8.8.8.8
		six.test. 60 IN AAAA 2606:4700::1111
		mixed.test. 60 IN A 127.0.0.1
		mixed.test. 60 IN A 8.8.8.8
		mixed.test. 60 IN AAAA ::1
		empty.test. 60 IN TXT "no address"
		alias.test. 60 IN CNAME n2.test.
	`
	var urls []string
	for i, text := range forbidden {
		if addr := netip.MustParseAddr(text); addr.Zone() == "" {
			kind := map[bool]string{true: "A", false: "AAAA"}[addr.Is4()]
			zone += fmt.Sprintf("n%d.test. 60 IN %s %s\n", i, kind, text)
			urls = append(urls, fmt.Sprintf("https://n%d.test/", i), fmt.Sprintf("http://n%d.test:443/", i),
				"https://"+netip.AddrPortFrom(addr, 443).String())
		}
	}
	urls = append(urls, "https://localhost/", "https://alias.test/", "http://public.test/", "https://public.test:22/",
		"https://public.test:5432/", "https://mixed.test:6379/", "https://unknown.test/", "https://empty.test/")
	resolver, _ := resolve(t, zone)
	c, dialled := countingSender(newGuard(t), resolver)
	for _, url := range urls {
		want := noAddress
		if isAddress(url) {
			want = notAllowed
		}
		if e := c.send(newDelivery(url)); e.Error != want || e.Delivered || dialled.Swap(0) != 0 {
			t.Errorf("%s: %q, want %q, and nothing dialled", url, e.Error, want)
		}
	}
	// Public addresses are dialled, and of a mixed set only those, so the test can fail.
	for _, url := range []string{"https://public.test/", "https://six.test/", "https://mixed.test/",
		"https://8.8.8.8/"} {
		c.send(newDelivery(url))
		expect.That(t, dialled.Swap(0) == 1, "%s: not dialled once", url)
	}
}

// A name that resolves to the receiver first and to a forbidden address later is not called again.
func TestDNSRebinding(t *testing.T) {
	t.Parallel()
	var hits atomic.Int32
	receiver := listen(t, "127.0.0.2:0", http.HandlerFunc(func(http.ResponseWriter, *http.Request) { hits.Add(1) }))
	_, port, _ := net.SplitHostPort(receiver.Listener.Addr().String())
	listen(t, "127.0.0.3:"+port, http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		t.Error("the forbidden address was called")
	}))
	resolver, server := resolve(t, "moves.test. 60 IN A 127.0.0.2")
	c := newSender(newGuard(t, "127.0.0.2/32"), resolver, nil, storetest.Discard())
	e := c.send(newDelivery("http://moves.test:" + port))
	expect.Must(t, e.Delivered && hits.Load() == 1, "first attempt: %+v", e)
	server.Handle("moves.test", func(w dns.ResponseWriter, r *dns.Msg) {
		m := new(dns.Msg).SetReply(r)
		if q := r.Question[0]; q.Qtype == dns.TypeA {
			m.Answer = []dns.RR{&dns.A{Hdr: dns.RR_Header{Name: q.Name, Rrtype: q.Qtype, Class: q.Qclass, Ttl: 60},
				A: net.IPv4(127, 0, 0, 3)}}
		}
		_ = w.WriteMsg(m)
	})
	e = c.send(newDelivery("http://moves.test:" + port))
	expect.That(t, !e.Delivered && e.Error == noAddress, "second attempt: %+v", e)
}

// Redirects are not followed, and the environment's proxy is not used.
func TestRedirectsAreNotFollowed(t *testing.T) {
	t.Parallel()
	target := listen(t, "127.0.0.1:0", http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		t.Error("a redirect was followed")
	}))
	receiver := listen(t, "127.0.0.1:0", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var code int
		_, _ = fmt.Sscanf(r.URL.Path, "/%d", &code)
		http.Redirect(w, r, target.URL, code)
	}))
	_, port, _ := net.SplitHostPort(receiver.Listener.Addr().String())
	resolver, _ := resolve(t, "receiver.test. 60 IN A 127.0.0.1")
	c := newSender(newGuard(t, "127.0.0.1/32"), resolver, nil, storetest.Discard())
	for _, code := range []int{301, 302, 303, 307, 308} {
		e := c.send(newDelivery(fmt.Sprintf("http://receiver.test:%s/%d", port, code)))
		expect.That(t, e.Status == code && !e.Delivered, "%d: %+v", code, e)
	}
}

// The certificate is verified for the URL's host name.
func TestTLS(t *testing.T) {
	t.Parallel()
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	server.Config.ErrorLog = log.New(io.Discard, "", 0) // handshakes are expected to fail
	server.StartTLS()
	t.Cleanup(server.Close)
	_, port, _ := net.SplitHostPort(server.Listener.Addr().String())
	resolver, _ := resolve(t, "example.com. 60 IN A 127.0.0.1\nother.test. 60 IN A 127.0.0.1")
	roots := x509.NewCertPool()
	roots.AddCert(server.Certificate())
	for name, test := range map[string]struct {
		host  string
		roots *x509.CertPool
		want  string
	}{
		"the certificate's host": {"example.com", roots, ""},
		"another host":           {"other.test", roots, noTLS},
		"an unknown authority":   {"example.com", x509.NewCertPool(), noTLS},
	} {
		e := newSender(newGuard(t, "127.0.0.1/32"), resolver, test.roots,
			storetest.Discard()).send(newDelivery("https://" + test.host + ":" + port))
		expect.That(t, e.Delivered == (test.want == "") && e.Error == test.want, "%s: %+v, want %q", name, e, test.want)
	}
}

func TestParseURL(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"https://example.com/hook?a=1&b":    "https://example.com/hook?a=1&b",
		"HTTPS://EXAMPLE.com./x":            "https://example.com/x",
		"https://bücher.example/ä":          "https://xn--bcher-kva.example/%C3%A4",
		"http://[::1]:80/x":                 "http://[::1]:80/x",
		"https://１２７.０.０.１/":                "https://127.0.0.1/",
		"https://127.0.0.1./":               "https://127.0.0.1/",
		"https://[::FFFF:127.0.0.1]":        "https://[::ffff:127.0.0.1]",
		"https://a.example/%0a%5c?x=%23":    "https://a.example/%0a%5c?x=%23",
		"https://localhost:8443/":           "https://localhost:8443/", // valid; its address is checked when dialled
		"https://example.com/a/../b//c?q=/": "https://example.com/a/../b//c?q=/",
	} {
		got, err := ParseURL(text)
		expect.That(t, err == nil && got == want, "%s: %q, %v, want %q", text, got, err, want)
	}
	for want, texts := range map[string][]string{
		"begin with https": {"", "example.com", "ftp://example.com", "javascript:alert(1)"},
		"has no host":      {"https:example.com", "https://", "https://:443/"},
		"user":             {"https://good@127.0.0.1/"},
		"fragment":         {"https://127.0.0.1#@good.example/"},
		"backslash":        {"https://good.example\\@127.0.0.1"},
		"control":          {"https://exam\tple.com", "https://example.com/\nX: y", "https://example.com/\u0085"},
		"white space":      {" https://example.com"},
		"standard notation": {"https://2130706433/", "https://0x7f000001/", "https://0x7f.1/", "https://127.1/",
			"https://example.0x7f/", "https://１２７.１/", "https://127.0.0.1.5/", "https://0177.0.0.1/",
			"https://127.0.0.08/", "https://256.256.256.256/"},
		"zone":      {"https://[fe80::1%25eth0]/"},
		"not a URL": {"https://[::1/", "https://example.com:x/"},
		"name": {"https://" + strings.Repeat("a", 64) + ".example/", "https://example..com",
			"https://exam_ple!.com"},
		"port": {"https://example.com:0/", "https://example.com:65536/", "https://example.com:/",
			"https://example.com:0443/"},
		"more than 2048": {"https://" + strings.Repeat("a", 63) + ".example/" + strings.Repeat("b", 3<<10)},
	} {
		for _, text := range texts {
			got, err := ParseURL(text)
			expect.That(t, err != nil && strings.HasPrefix(err.Error(), "url: ") && strings.Contains(err.Error(), want),
				"%s: %q, %v, want an error with %q", text, got, err, want)
		}
	}
}

func TestCheckURL(t *testing.T) {
	t.Parallel()
	strict, permissive := newGuard(t), newGuard(t, "127.0.0.0/8")
	for accepted, texts := range map[string][]string{
		"by all": {"https://example.com:8443/", "https://8.8.8.8/", "https://[2606:4700::1111]/"},
		// Their addresses may be allowed.
		"with an allowed network": {"http://example.com/", "https://example.com:9000/", "https://localhost/",
			"https://redis/", "https://printer.local/", "https://metadata.goog.internal", "http://127.0.0.1:8080/",
			"https://[::ffff:127.0.0.1]/"},
		"by none": {"http://10.0.0.1/", "https://169.254.169.254/", "https://[::ffff:10.0.0.1]/",
			"https://１９２.168.0.1/", "https://8.8.8.8:22/", "http://8.8.8.8/", "http://8.8.8.8:443/",
			"https://user@example.com/"},
	} {
		for _, text := range texts {
			err := strict.CheckURL(text)
			expect.That(t, (err == nil) == (accepted == "by all"), "%s, accepted %s: %v without one", text, accepted,
				err)
			err = permissive.CheckURL(text)
			expect.That(t, (err == nil) == (accepted != "by none"), "%s, accepted %s: %v with one", text, accepted, err)
		}
	}
}

// A parsed URL parses to itself, and is the one that net/http calls.
func FuzzParseURL(f *testing.F) {
	for _, text := range []string{"https://example.com/hook?a=1", "http://[::1]:80", "https://１２７.０.０.１",
		"https://a@b#c", "https://0x7f.1\\", "https://bücher.example./%zz"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		once, err := ParseURL(text)
		if err != nil {
			return
		}
		twice, err := ParseURL(once)
		expect.That(t, err == nil && twice == once, "%q was parsed as %q, and that as %q, %v", text, once, twice, err)
		expect.That(t, !strings.ContainsAny(once, " \t\r\n\\@#") || strings.Contains(text, "@"), "%q was parsed as %q",
			text, once)
		u, err := parseURL(once)
		expect.Must(t, err == nil && u.User == nil, "%q: %v", once, err)
		expect.That(t, !strings.ContainsFunc(u.Host, func(r rune) bool { return r > '~' || r <= ' ' }),
			"%q has the host %q", text, u.Host)
	})
}
