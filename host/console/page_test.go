package console

import (
	"strings"
	"testing"

	"assay/sdk"
)

func TestShown(t *testing.T) {
	t.Parallel()
	for n, want := range map[int]string{0: "0", 1500: "1500", 9999: "9999", 10_000: "10,000", 123_456: "123,456",
		1_234_567: "1,234,567"} {
		if got := count(n); got != want {
			t.Errorf("%d is shown as %s, want %s", n, got, want)
		}
	}
	for timestamp, want := range map[string]string{
		"2026-01-05T03:04:05.678Z": "5 Jan 2026, 03:04:05 UTC", "2026-01-05T03:04:05+02:00": "5 Jan 2026, 01:04:05 UTC",
		"some day": "some day", "": "",
	} {
		if got := moment(timestamp); got != want {
			t.Errorf("%q is shown as %q, want %q", timestamp, got, want)
		}
	}
}

// TestDocsNameThreats holds the documentation to the closed list.
func TestDocsNameThreats(t *testing.T) {
	t.Parallel()
	v := serve(t, nil).visit(t)
	v.get("/docs")
	v.is(200, "API documentation")
	for _, threat := range sdk.Threats() {
		if !strings.Contains(v.at.body, "<code>"+string(threat)+"</code>") {
			t.Errorf("the documentation does not name %s", threat)
		}
	}
}

// TestOverviewParts tries a check as htmx does: what the check changes elsewhere on the page comes with its result.
func TestOverviewParts(t *testing.T) {
	t.Parallel()
	s := serve(t, nil)
	v, _ := s.customer(t, "pro")
	token := v.at.token()
	if strings.Contains(v.at.body, "hx-swap-oob") {
		t.Error("the whole page is marked as parts")
	}
	v.header.Set("HX-Request", "true")
	v.header.Set("HX-Target", "div#tried")
	for value, status := range map[string]int{"example.com": 200, "": 400} {
		p := v.post("/dashboard/try", "csrf", token, "value", value, "type", "domain")
		if p.status != status || strings.Contains(p.body, "<nav") || strings.Contains(p.body, "<form") {
			t.Errorf("%q: status %d, want parts with %d: %s", value, p.status, status, p.body)
		}
		if strings.Count(p.body, `id="tried"`) != 1 {
			t.Errorf("%q: the result is missing", value)
		}
		for _, id := range []string{"usage", "plot", "days", "recent"} {
			if !strings.Contains(p.body, `id="`+id+`"`) {
				t.Errorf("%q: %s is not brought up to date", value, id)
			}
		}
		if strings.Count(p.body, `hx-swap-oob="true"`) != 4 {
			t.Errorf("%q: not four parts stand beside the result", value)
		}
	}
}

// TestErrorPages says what went wrong in plain words, to whom is signed in with the way back.
func TestErrorPages(t *testing.T) {
	t.Parallel()
	s := serve(t, nil)
	v, _ := s.customer(t, "starter")
	v.get("/nothing")
	v.is(404, "Sign out")
	v.is(404, "There is no such page.")
	v.is(404, "Go to the dashboard")
	v.post("/dashboard/plan/cancel")
	v.is(403, "That did not work")
	v.is(403, "This form is out of date.")
	v.get(donePath)
	v.is(410, "Your key was shown already")
	v.is(410, "Sign out")
	if !strings.Contains(v.at.body, "<title>Your key was shown already") {
		t.Error("the title says something else")
	}
	w := s.visit(t)
	w.get("/nothing")
	w.is(404, "Go to the start page")
	w.is(404, "Sign in")
}
