package webhook

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"assay/host/facts/resolver/resolvertest"
	"assay/registry/expect"
)

// listen serves HTTP on an address until the test ends.
func listen(t testing.TB, address string, h http.Handler) *httptest.Server {
	t.Helper()
	l := expect.Value(net.Listen("tcp", address))(t)
	s := httptest.NewUnstartedServer(h)
	s.Listener.Close()
	s.Listener = l
	s.Start()
	t.Cleanup(s.Close)
	return s
}

func newGuard(t testing.TB, allow ...string) *Guard {
	t.Helper()
	var networks []netip.Prefix
	for _, text := range allow {
		networks = append(networks, netip.MustParsePrefix(text))
	}
	return expect.Value(NewGuard(networks))(t)
}

// newDelivery returns the second attempt to deliver an event to url.
func newDelivery(url string) Delivery {
	return Delivery{Ref: "chk_01KF0HBGZ0Q8WJ3V5N7T9R2M4C", AccountID: "acct_1", Event: "check.blocked", Attempt: 2,
		Sequence: 17, Body: []byte(`{"event":"check.blocked"}`), URL: url, Secrets: []string{"whsec_c2VjcmV0IG9uZQ=="}}
}

// resolve returns a resolver that asks a DNS server on loopback, which has the records of a zone.
func resolve(t testing.TB, zone string) (*net.Resolver, *resolvertest.Server) {
	t.Helper()
	server := resolvertest.Start(t, zone)
	return &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, network, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, network, server.Addr)
	}}, server
}

// StandardSignature is standardSignature for the tests of package webhook_test.
var StandardSignature = standardSignature

var update = flag.Bool("update", false, "rewrite the signatures that the clients in sdk verify")

// signatureCase is a request that the clients' tests verify at the time Now, in seconds.
type signatureCase struct {
	Name    string            `json:"name"`
	Secret  string            `json:"secret"`
	Now     int64             `json:"now"`
	Headers map[string]string `json:"headers"`
	Body    string            `json:"body"`
	Valid   bool              `json:"valid"`
	Service bool              `json:"service"` // whether X-Service-Signature is valid
}

// TestSignaturesForClients compares sdk/testdata/webhooks.json, which the clients' tests read, with what a host signs.
func TestSignaturesForClients(t *testing.T) {
	t.Parallel()
	const (
		file = "../../../sdk/testdata/webhooks.json"
		body = `{"event":"check.blocked","timestamp":"2026-01-15T10:30:00.123Z","data":{"query":"é.example",` +
			`"type":"domain","verdict":"BLOCK","score":94,"signals":["lexical:bait:login"],"ref":"chk_1"}}`
		now                   = 1_800_000_000
		service               = "x-service-signature"
		secret, other, binary = "whsec_c2VjcmV0IG9uZQ==", "whsec_c2VjcmV0IHR3bw==", "whsec_//79+/r5"
	)
	var cases []signatureCase
	add := func(name, key string, valid bool, at int64, secrets []string, change func(*signatureCase)) {
		h := http.Header{}
		sign(h, Delivery{Ref: "chk_1", Event: "check.blocked", Sequence: 17, Attempt: 1, Secrets: secrets,
			Body: []byte(body)}, time.Unix(at, 0))
		c := signatureCase{name, key, now, map[string]string{}, body, valid, secrets[0] == key}
		for _, name := range []string{"webhook-id", "webhook-timestamp", "webhook-signature", service} {
			c.Headers[name] = h.Get(name)
		}
		if change != nil {
			change(&c)
		}
		cases = append(cases, c)
	}
	set := func(name, value string) func(*signatureCase) {
		return func(c *signatureCase) { c.Headers[name] = value }
	}
	signature := func(edit func(string) string) func(*signatureCase) {
		return func(c *signatureCase) { c.Headers["webhook-signature"] = edit(c.Headers["webhook-signature"]) }
	}
	one, two := []string{secret}, []string{other, secret}
	add("genuine", secret, true, now, one, nil)
	add("rotated, the receiver has the secret that signs", other, true, now, two, nil)
	add("rotated, the receiver has the secret that will sign", secret, true, now, two, nil)
	add("a secret whose base64 has + and /", binary, true, now, []string{binary}, nil)
	add("a secret that is not base64", "whsec_not base64", true, now, []string{"whsec_not base64"}, nil)
	add("a signature of an unknown version first", secret, true, now, one,
		signature(func(s string) string { return "v2,AAAA " + s }))
	add("300 s old", secret, true, now-300, one, nil)
	add("301 s old", secret, false, now-301, one, nil)
	add("300 s in the future", secret, true, now+300, one, nil)
	add("301 s in the future", secret, false, now+301, one, nil)
	add("another secret", other, false, now, one, nil)
	add("an altered body", secret, false, now, one,
		func(c *signatureCase) { c.Body, c.Service = strings.Replace(c.Body, "BLOCK", "ALLOW", 1), false })
	add("an altered id", secret, false, now, one, set("webhook-id", "chk_2"))
	add("an altered time", secret, false, now, one, set("webhook-timestamp", strconv.Itoa(now+1)))
	add("a time with a sign", secret, false, now, one, set("webhook-timestamp", "+"+strconv.Itoa(now)))
	add("a time in other digits", secret, false, now, one, set("webhook-timestamp", "١٨٠٠٠٠٠٠٠٠"))
	add("an overlong time", secret, false, now, one, set("webhook-timestamp", strings.Repeat("9", 400)))
	add("no time", secret, false, now, one, set("webhook-timestamp", ""))
	add("no signature", secret, false, now, one, set("webhook-signature", ""))
	add("a signature without its version", secret, false, now, one,
		signature(func(s string) string { return strings.TrimPrefix(s, "v1,") }))
	add("a part of the signature", secret, false, now, one, signature(func(s string) string { return s[:20] }))
	add("a signature that is not ASCII", secret, false, now, one, signature(func(s string) string { return s + "é" }))

	add("header names in another case", secret, true, now, one, func(c *signatureCase) {
		for name, value := range c.Headers {
			delete(c.Headers, name)
			c.Headers[strings.ToUpper(name[:9])+name[9:]] = value
		}
	})
	for name, edit := range map[string]func(string) string{
		"no service signature":                  func(string) string { return "" },
		"a service signature in upper case":     strings.ToUpper,
		"a service signature without its name":  func(s string) string { return strings.TrimPrefix(s, "sha256=") },
		"a part of the service signature":       func(s string) string { return s[:20] },
		"a service signature that is not ASCII": func(s string) string { return s + "é" },
		"two service signatures":                func(s string) string { return s + "," + s },
	} {
		add(name, secret, true, now, one, func(c *signatureCase) {
			c.Headers[service], c.Service = edit(c.Headers[service]), false
		})
	}

	slices.SortFunc(cases, func(a, b signatureCase) int { return strings.Compare(a.Name, b.Name) })
	var want bytes.Buffer
	e := json.NewEncoder(&want)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	expect.NoError(t, e.Encode(cases))
	if *update {
		expect.NoError(t, os.WriteFile(file, want.Bytes(), 0o644))
	}
	expect.That(t, bytes.Equal(expect.Value(os.ReadFile(file))(t), want.Bytes()),
		"%s differs from what a host signs: go test ./host/customer/webhook -run %s -update", file, t.Name())
}

// The expected values are from Python's hmac module, the first from the tests of the Standard Webhooks libraries.
func TestSign(t *testing.T) {
	t.Parallel()
	expect.Equal(t, "Standard Webhooks", standardSignature("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw",
		"msg_p5jXN8AQM9LWM0D4loKWxJek", "1614265330", []byte(`{"test": 2432232314}`)),
		"v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=")
	at := time.Unix(1_800_000_000, 900_000_000)
	d := newDelivery("https://receiver.example")
	got := http.Header{}
	sign(got, d, at)
	want := http.Header{
		"X-Service-Event":     {"check.blocked"},
		"X-Service-Signature": {"sha256=012d96f639f336ff7e2344a232a5011b8483eabd234eca2043fed85bdb41a7f6"},
		"X-Service-Sequence":  {"17"},
		"X-Service-Attempt":   {"2"},
		"Webhook-Id":          {"chk_01KF0HBGZ0Q8WJ3V5N7T9R2M4C"},
		"Webhook-Timestamp":   {"1800000000"},
		"Webhook-Signature":   {"v1,W1jLYWowz5YMzEGu4bdtrE/N5itM+YxtenBeAK/FCYw="},
	}
	expect.NoDiff(t, "headers", want, got)
	d.Secrets = []string{"whsec_c2VjcmV0IHR3bw==", "whsec_c2VjcmV0IG9uZQ=="}
	got = http.Header{}
	sign(got, d, at)
	want.Set("X-Service-Signature", "sha256=3587eecb67404904052516bf96681c8c603237a262b038c4ee6df586d489f584")
	want.Set("Webhook-Signature", "v1,YSqtC9crfDnDJ6FkkuNcysPVWcHqYHt3wBnmO6QVheY= "+
		"v1,W1jLYWowz5YMzEGu4bdtrE/N5itM+YxtenBeAK/FCYw=")
	expect.NoDiff(t, "headers with two secrets", want, got)
}
