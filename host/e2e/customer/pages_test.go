package customer

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"syscall"
	"testing"

	"assay/host/hosttest"
	"assay/host/store/postgres/postgrestest"
)

// TestPages sends requests to a host that no browser would send.
func TestPages(t *testing.T) {
	t.Parallel()
	host := hosttest.StartHost(t, hosttest.DataDir(t), postgrestest.Database(t), "--dns=off", "--test-checkout",
		"--public-url=https://assay.example")
	b := newBuyer(t, host)
	for name, test := range map[string]struct {
		method, path, cookie string
		status               int
		header               map[string]string
	}{
		"a cookie of 8 KiB": {"GET", "/", strings.Repeat("x", 8<<10), 431, nil},
		"a page": {"GET", "/signin", "", 200, map[string]string{"Cache-Control": "no-store",
			"Referrer-Policy": "no-referrer", "X-Content-Type-Options": "nosniff",
			"Strict-Transport-Security": "max-age=31536000"}},
		"an unknown page":       {"GET", "/nothing", "", 404, map[string]string{"Cache-Control": "no-store"}},
		"GET instead of POST":   {"GET", "/subscribe", "", 405, map[string]string{"Allow": "POST"}},
		"the provider's events": {"POST", "/api/billing/stripe", "", 404, nil}, // no Stripe key is set
		"a form from elsewhere": {"POST", "/signin", "", 403, nil},
	} {
		request, err := http.NewRequestWithContext(t.Context(), test.method, host.URL+test.path, http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		if test.cookie != "" {
			request.Header.Set("Cookie", "assay_session="+test.cookie)
		}
		request.Header.Set("Sec-Fetch-Site", "cross-site")
		response, err := b.client.Do(request)
		status, _ := b.read(response, err)
		if status != test.status {
			t.Errorf("%s: status %d, want %d", name, status, test.status)
		}
		for field, want := range test.header {
			if got := response.Header.Get(field); got != want {
				t.Errorf("%s: %s is %q, want %q", name, field, got, want)
			}
		}
	}
	// The number of checkouts is limited by client.
	statuses := map[int]int{}
	for range 15 {
		response, err := b.client.PostForm(host.URL+"/subscribe", url.Values{"plan": {"starter"}})
		status, _ := b.read(response, err)
		statuses[status]++
	}
	if fmt.Sprint(statuses) != "map[303:10 429:5]" {
		t.Errorf("statuses of 15 checkouts from one client: %v", statuses)
	}
	host.Stop(t, syscall.SIGTERM)
}
