package webhook

import (
	"bytes"
	"encoding/json"
	"flag"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"assay/registry/expect"
)

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

// TestSignaturesForClients compares sdk/testdata/webhooks.json, which the tests of the official clients read, with what
// a host signs.
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
	got := expect.Value(os.ReadFile(file))(t)
	expect.That(t, bytes.Equal(got, want.Bytes()),
		"%s differs from what a host signs: go test ./host/customer/webhook -run %s -update", file, t.Name())
}
