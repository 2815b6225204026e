package registration

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"assay/host/entity"
)

func TestAnswers(t *testing.T) {
	t.Parallel()
	event := func(action, date string) string {
		return fmt.Sprintf(`{"objectClassName": "domain", "events": [{"eventAction": %q, "eventDate": %q}]}`, action,
			date)
	}
	cases := []struct {
		name   string
		answer http.HandlerFunc
		want   Kept
	}{
		{"no such domain", func(w http.ResponseWriter, _ *http.Request) { http.NotFound(w, nil) },
			Kept{Outcome: Absent}},
		{"nothing but a domain", says(`{"objectClassName": "domain"}`), Kept{Outcome: Registered}},
		{"another domain", says(`{"objectClassName": "domain", "ldhName": "other.com"}`),
			Kept{Outcome: Failed, Failures: 1}},
		{"a person", says(`{"objectClassName": "entity", "handle": "x"}`), Kept{Outcome: Failed, Failures: 1}},
		{"a list", says(`[1, 2]`), Kept{Outcome: Failed, Failures: 1}},
		{"no JSON", says(`<html>`), Kept{Outcome: Failed, Failures: 1}},
		{"half a document", says(`{"objectClassName": "domain", "events": [`), Kept{Outcome: Failed, Failures: 1}},
		{"nothing", says(``), Kept{Outcome: Failed, Failures: 1}},
		{"a failure", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusInternalServerError) },
			Kept{Outcome: Failed, Failures: 1}},
		{"too much", says(`{"objectClassName": "domain", "x": "%s"}`, strings.Repeat("x", maxAnswer)),
			Kept{Outcome: Failed, Failures: 1}},
		{"too deep", says(`{"objectClassName": "domain", "x": %s`, strings.Repeat("[", 200_000)),
			Kept{Outcome: Failed, Failures: 1}},
		{"a date without a zone", says("%s", event("registration", "2020-01-02T03:04:05")),
			Kept{Outcome: Registered, Created: time.Date(2020, 1, 2, 3, 4, 5, 0, time.UTC)}},
		{"a date with an odd zone", says("%s", event("registration", "2020-01-02T03:04:05+0000")),
			Kept{Outcome: Registered, Created: time.Date(2020, 1, 2, 0, 0, 0, 0, time.UTC)}},
		{"a date with an odd time", says("%s", event("registration", " 2020-01-02 03:04:05.6 UTC")),
			Kept{Outcome: Registered, Created: time.Date(2020, 1, 2, 0, 0, 0, 0, time.UTC)}},
		{"a date ahead", says("%s", event("registration", "2026-05-06T00:00:00Z")), Kept{Outcome: Registered}},
		{"a date before there were domains", says("%s", event("registration", "0001-01-01T00:00:00Z")),
			Kept{Outcome: Registered}},
		{"no date", says("%s", event("registration", "yesterday")), Kept{Outcome: Registered}},
		{"an end far ahead", says("%s", event("expiration", "9999-12-31T00:00:00Z")), Kept{Outcome: Registered}},
		{"other types than said", says(`{"objectClassName": "domain", "status": 7, "events": "x", "entities": [{"roles": ["registrar"], "vcardArray": 3, "handle": "Seven"}]}`),
			Kept{Outcome: Registered, Registrar: "Seven"}},
		{"redirected within", func(w http.ResponseWriter, q *http.Request) {
			if strings.HasPrefix(q.URL.Path, "/rdap/") {
				http.Redirect(w, q, "/elsewhere", http.StatusFound)
				return
			}
			says(`{"objectClassName": "domain"}`)(w, q)
		}, Kept{Outcome: Registered}},
		{"redirected in a circle", func(w http.ResponseWriter, q *http.Request) {
			http.Redirect(w, q, q.URL.Path, http.StatusFound)
		}, Kept{Outcome: Failed, Failures: 1}},
		{"redirected to another port here", func(w http.ResponseWriter, q *http.Request) {
			http.Redirect(w, q, "http://127.0.0.1:1/", http.StatusFound)
		}, Kept{Outcome: Failed, Failures: 1}},
		{"redirected to a private address", func(w http.ResponseWriter, q *http.Request) {
			http.Redirect(w, q, "https://[::1]/", http.StatusFound)
		}, Kept{Outcome: Failed, Failures: 1}},
	}
	for _, tc := range cases {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			r := newRegistry(t, tc.answer)
			got := r.fetched(t, "example.com")
			got.Fetched, got.Next = time.Time{}, time.Time{}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("differs:\n%s", diff)
			}
			if n := r.count("example.com"); n > 1+maxRedirects {
				t.Errorf("the registry was asked %d times", n)
			}
			if f, err := r.observe(t, entity.Domain, "example.com"); (err != nil) != (tc.want.Outcome == Failed) {
				t.Errorf("%v, %v", f, err)
			}
		})
	}
}

func TestGuardedDial(t *testing.T) {
	t.Parallel()
	own, err := url.Parse("http://127.0.0.1:1234/rdap")
	if err != nil {
		t.Fatal(err)
	}
	dial := guardedDial(own, nil)
	for _, address := range []string{
		"127.0.0.1:443", "127.0.0.1:1235", "[::1]:443", "[::ffff:127.0.0.1]:443", "10.0.0.1:443", "169.254.169.254:443",
		"[fd00:ec2::254]:443",
		"100.64.0.1:443", "0.0.0.0:443", "[64:ff9b::7f00:1]:443", "93.184.215.14:80", "93.184.215.14:22",
		"localhost:443",
	} {
		conn, err := dial(t.Context(), "tcp", address)
		if err == nil {
			conn.Close()
		}
		var refused *net.OpError
		if err == nil || !errors.As(err, &refused) || !strings.Contains(err.Error(), "not a public address") {
			t.Errorf("dialling %s gives %v", address, err)
		}
	}
}

// TestRedirects: within the operator's own server, else to https only.
func TestRedirects(t *testing.T) {
	t.Parallel()
	cases := []struct {
		own, to string
		ok      bool
	}{
		{"", "https://rdap.example/", true},
		{"", "http://rdap.example/", false},
		{"", "ftp://rdap.example/", false},
		{"http://own.example:81/rdap", "http://own.example:81/else", true},
		{"http://own.example:81/rdap", "http://own.example:82/", false},
		{"http://own.example:81/rdap", "http://other.example:81/", false},
		{"https://own.example/rdap", "http://own.example/", false},
		{"https://own.example/rdap", "https://other.example/", true},
	}
	for _, tc := range cases {
		c, err := newClient(tc.own, nil, time.Now)
		if err != nil {
			t.Fatal(err)
		}
		if err := c.http.CheckRedirect(httptest.NewRequest(http.MethodGet, tc.to, nil), nil); (err == nil) != tc.ok {
			t.Errorf("from %q to %s: %v", tc.own, tc.to, err)
		}
	}
}

// TestServers: which server knows a domain is read from IANA's list; only https counts.
func TestServers(t *testing.T) {
	t.Parallel()
	lists := 0
	list := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		lists++
		fmt.Fprint(w, `{"version": "1.0", "publication": "2026-01-01T00:00:00Z", "services": [
			[["com", "net"], ["http://plain.example/", "https://rdap.example/com/"]], [["cheap"], ["http://plain.example/"]]]}`)
	}))
	defer list.Close()
	c, err := newClient("", nil, time.Now)
	if err != nil {
		t.Fatal(err)
	}
	c.list.HTTP = list.Client()
	if c.list.BaseURL, err = url.Parse(list.URL); err != nil {
		t.Fatal(err)
	}
	for domain, want := range map[string]string{"example.com": "https://rdap.example/com/",
		"a.net": "https://rdap.example/com/", "b.cheap": "", "c.unknown": ""} {
		got, err := c.server(t.Context(), domain)
		if got != want || (want == "") != errors.Is(err, errUnserved) {
			t.Errorf("%s: %q, %v, want %q", domain, got, err, want)
		}
	}
	if lists != 1 {
		t.Errorf("the list was read %d times, want once", lists)
	}
	list.Close()
	fresh, err := newClient("", nil, time.Now)
	if err != nil {
		t.Fatal(err)
	}
	fresh.list.HTTP, fresh.list.BaseURL = list.Client(), c.list.BaseURL
	var pause *pauseError
	if _, err := fresh.server(t.Context(), "example.com"); !errors.As(err, &pause) {
		t.Errorf("without the list: %v", err)
	}
}

func TestNewRefuses(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"rdap.example", "ftp://rdap.example", "https://", "http://[", "://"} {
		if _, err := New(Config{URL: text}); err == nil {
			t.Errorf("%q is taken", text)
		}
	}
}

func FuzzDate(f *testing.F) {
	for _, s := range []string{"2020-01-02T03:04:05Z", "2020-01-02", "9999-99-99", ""} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		if d := date(s); !d.IsZero() && (d.Year() < firstYear-1 || d.Year() > 3000) {
			t.Errorf("%q is read as %v", s, d)
		}
	})
}
