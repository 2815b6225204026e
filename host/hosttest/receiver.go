package hosttest

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"assay/host/store/storetest"
	"assay/registry/expect"
)

// AllowLoopback is the flag with which a host may call the tests' receivers.
const AllowLoopback = "--webhook-allow=127.0.0.0/8"

// BlockedDomain is a request that is scored as block.
const BlockedDomain = `{"domain":"paypa1-secure-login.xyz"}`

// Call is a received webhook request.
type Call struct {
	Header http.Header
	Body   []byte
}

// Ref returns the reference of the event.
func (c Call) Ref() string { return c.Header.Get("webhook-id") }

// Receive starts a webhook receiver on loopback. respond returns the status of each response.
func Receive(t *testing.T, respond func(Call) int) (url string, calls <-chan Call) {
	t.Helper()
	received := make(chan Call, 10_000)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return
		}
		c := Call{r.Header, body}
		received <- c
		w.WriteHeader(respond(c))
		fmt.Fprint(w, "thanks for ", c.Ref())
	}))
	t.Cleanup(server.Close)
	return server.URL, received
}

// Next waits for a call.
func Next(t *testing.T, calls <-chan Call) Call {
	t.Helper()
	return storetest.Receive(t, "a webhook", calls)
}

// StandardSignature returns the Standard Webhooks signature of a call.
func StandardSignature(secret string, c Call) string {
	key, _ := base64.StdEncoding.DecodeString(strings.TrimPrefix(secret, "whsec_"))
	mac := hmac.New(sha256.New, key)
	fmt.Fprintf(mac, "%s.%s.%s", c.Ref(), c.Header.Get("webhook-timestamp"), c.Body)
	return "v1," + base64.StdEncoding.EncodeToString(mac.Sum(nil))
}

// Get returns the body of a page or resource that a key may read.
func Get(t *testing.T, url, key string) string {
	t.Helper()
	status, body := request(t, key, http.MethodGet, url, "")
	expect.Must(t, status == http.StatusOK, "%s: %d, %s", url, status, body)
	return body
}
