package registration

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"assay/host/entity"
	"assay/registry/expect"
)

// TestResponses checks the stored record after each kind of response, regular and hostile.
func TestResponses(t *testing.T) {
	t.Parallel()
	event := func(action, date string) http.HandlerFunc {
		return respond(`{"objectClassName": "domain", "events": [{"eventAction": %q, "eventDate": %q}]}`, action, date)
	}
	failed := Record{Outcome: Failed, Failures: 1}
	type testCase struct {
		handler http.HandlerFunc
		want    Record
	}
	expect.Each(t, map[string]testCase{
		"not found": {func(w http.ResponseWriter, _ *http.Request) { http.NotFound(w, nil) },
			Record{Outcome: Absent}},
		"a domain without data": {respond(`{"objectClassName": "domain"}`), Record{Outcome: Registered}},
		"another domain":        {respond(`{"objectClassName": "domain", "ldhName": "other.com"}`), failed},
		"an entity":             {respond(`{"objectClassName": "entity", "handle": "x"}`), failed},
		"HTML":                  {respond(`<html>`), failed},
		"status 500": {func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusInternalServerError) },
			failed},
		"body beyond the limit": {respond(`{"objectClassName": "domain", "x": "%s"}`, strings.Repeat("x", maxBody)),
			failed},
		"nested too deeply": {respond(`{"objectClassName": "domain", "x": %s`, strings.Repeat("[", 200_000)), failed},
		"date and time without a zone": {event("registration", "2020-01-02T03:04:05"),
			Record{Outcome: Registered, Created: time.Date(2020, 1, 2, 3, 4, 5, 0, time.UTC)}},
		"zone without a colon": {event("registration", "2020-01-02T03:04:05+0000"),
			Record{Outcome: Registered, Created: time.Date(2020, 1, 2, 0, 0, 0, 0, time.UTC)}},
		"date with a malformed time": {event("registration", " 2020-01-02 03:04:05.6 UTC"),
			Record{Outcome: Registered, Created: time.Date(2020, 1, 2, 0, 0, 0, 0, time.UTC)}},
		"registration in the future":     {event("registration", "2026-05-06T00:00:00Z"), Record{Outcome: Registered}},
		"registration before 1985":       {event("registration", "0001-01-01T00:00:00Z"), Record{Outcome: Registered}},
		"malformed date":                 {event("registration", "yesterday"), Record{Outcome: Registered}},
		"expiration after the year 3000": {event("expiration", "9999-12-31T00:00:00Z"), Record{Outcome: Registered}},
		"several changes": {respond(`{"objectClassName": "domain", "events": [
			{"eventAction": "transfer", "eventDate": "2026-03-01T00:00:00Z"},
			{"eventAction": "last changed", "eventDate": "2026-02-01T00:00:00Z"},
			{"eventAction": "last update of RDAP database", "eventDate": "2026-05-04T00:00:00Z"}]}`),
			Record{Outcome: Registered, Changed: time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC)}},
		"a change in the future": {event("last changed", "2026-05-06T00:00:00Z"), Record{Outcome: Registered}},
		"fields of the wrong JSON types": {respond(`{"objectClassName": "domain", "status": 7, "events": "x",
				"entities": [{"roles": ["registrar"], "vcardArray": 3, "handle": "Seven"}]}`),
			Record{Outcome: Registered, Registrar: "Seven"}},
		"redirect within the server": {func(w http.ResponseWriter, q *http.Request) {
			if strings.HasPrefix(q.URL.Path, "/rdap/") {
				http.Redirect(w, q, "/elsewhere", http.StatusFound)
				return
			}
			respond(`{"objectClassName": "domain"}`)(w, q)
		}, Record{Outcome: Registered}},
		"circular redirect": {func(w http.ResponseWriter, q *http.Request) {
			http.Redirect(w, q, q.URL.Path, http.StatusFound)
		}, failed},
		"redirect to another port of this machine": {func(w http.ResponseWriter, q *http.Request) {
			http.Redirect(w, q, "http://127.0.0.1:1/", http.StatusFound)
		}, failed},
		"redirect to a loopback address": {func(w http.ResponseWriter, q *http.Request) {
			http.Redirect(w, q, "https://[::1]/", http.StatusFound)
		}, failed},
	}, func(t *testing.T, tc testCase) {
		r := newRegistry(t, tc.handler)
		got := r.fetch(t, "example.com")
		got.Fetched, got.NextFetch = time.Time{}, time.Time{}
		expect.NoDiff(t, "record", tc.want, got)
		expect.That(t, r.count("example.com") <= 1+maxRedirects, "too many requests for the domain")
		f, err := r.observe(t, entity.Domain, "example.com")
		expect.That(t, (err != nil) == (tc.want.Outcome == Failed), "Observe = %v, %v", f, err)
	})
}

// TestRedirects checks that redirects lead to https URLs or stay within the operator's own server.
func TestRedirects(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
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
	} {
		c := expect.Value(newClient(tc.own, nil, time.Now))(t)
		err := c.http.CheckRedirect(httptest.NewRequest(http.MethodGet, tc.to, nil), nil)
		expect.That(t, (err == nil) == tc.ok, "redirect from %q to %s: %v", tc.own, tc.to, err)
	}
}

// TestServers checks that servers are found in IANA's list, which is fetched once, and that only https URLs are used.
func TestServers(t *testing.T) {
	t.Parallel()
	fetches := 0
	list := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		fetches++
		fmt.Fprint(w, `{"version": "1.0", "publication": "2026-01-01T00:00:00Z", "services": [
			[["com", "net"], ["http://plain.example/", "https://rdap.example/com/"]],
			[["cheap"], ["http://plain.example/"]]]}`)
	}))
	defer list.Close()
	c := expect.Value(newClient("", nil, time.Now))(t)
	c.bootstrap.HTTP = list.Client()
	c.bootstrap.BaseURL = expect.Value(url.Parse(list.URL))(t)
	for domain, want := range map[string]string{
		"example.com": "https://rdap.example/com/", "a.net": "https://rdap.example/com/",
		"b.cheap": "", "c.unknown": "",
	} {
		got, err := c.server(t.Context(), domain)
		expect.That(t, got == want && (want == "") == errors.Is(err, errNoServer), "server(%s) = %q, %v; want %q",
			domain, got, err, want)
	}
	expect.Equal(t, "the list was fetched", fetches, 1)
	list.Close()
	fresh := expect.Value(newClient("", nil, time.Now))(t)
	fresh.bootstrap.HTTP, fresh.bootstrap.BaseURL = list.Client(), c.bootstrap.BaseURL
	_, err := fresh.server(t.Context(), "example.com")
	expect.That(t, errors.As(err, new(*pauseError)), "without the list: %v, want a *pauseError", err)
}

func TestNewRefusesInvalidURLs(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"rdap.example", "ftp://rdap.example", "https://", "http://[", "://"} {
		expect.Failure(t, expect.ErrorOf(New(Config{URL: text})), "New accepts the URL %q", text)
	}
}

func FuzzParseDate(f *testing.F) {
	for _, s := range []string{"2020-01-02T03:04:05Z", "2020-01-02", "9999-99-99", ""} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		d := parseDate(s)
		expect.That(t, d.IsZero() || d.Year() >= firstYear-1 && d.Year() <= 3000, "parseDate(%q) = %v", s, d)
	})
}
