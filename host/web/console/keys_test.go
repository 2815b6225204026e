package console

import (
	"strings"
	"testing"
	"time"

	"assay/host/access/apikey"
	"assay/registry/expect"
)

// A key with limits is created, shown with them, and replaced by one with the same limits.
func testKeyWithLimits(t *testing.T, s *site) {
	v, _ := s.customer(t, "pro")
	v.get("/dashboard/keys")
	token := v.at.token()
	v.is(200, "never")
	expect.That(t, strings.Count(v.at.body, "checked>") == len(apikey.Scopes()),
		"the form of a new key does not have every scope ticked:\n%s", v.at.body)
	v.post("/dashboard/keys", "csrf", token, "name", "reader", "scope", "events", "test", "yes",
		"networks", " 192.0.2.0/24,2001:db8::1\n", "until", s.clock.Load().UTC().Format(time.DateOnly))
	v.is(200, "This is the new key.", "test key; only events; only from 192.0.2.0/24 2001:db8::1/128")
	first := v.at.text("issued")
	v.is(200, "works until")
	limits := expect.Value(s.store.Authenticate(t.Context(), first))(t).Limits
	expect.That(t, limits.Test && len(limits.Scopes) == 1 && len(limits.Networks) == 2, "the key has the limits %+v",
		limits)
	v.press("Rotate", "overlap", "0s") // the newest is the first
	second := v.at.text("issued")
	s.store.ForgetCallers() // as the host does when it hears of the change
	expect.ErrorText(t, "the old key", expect.ErrorOf(s.store.Authenticate(t.Context(), first)), "API key")
	if got := expect.Value(s.store.Authenticate(t.Context(), second))(t).Limits; !got.Test || len(got.Networks) != 2 {
		t.Errorf("the new key has the limits %+v", got)
	}
	v.press("Create key", "name", "plain")
	got := expect.Value(s.store.Authenticate(t.Context(), v.at.text("issued")))(t).Limits
	expect.That(t, got.Scopes == nil && got.Networks == nil && !got.Test,
		"a key from an unchanged form has the limits %+v", got)
}

// Each error is next to its field, and the form keeps what was entered.
func testKeyFormErrors(t *testing.T, s *site) {
	v, _ := s.customer(t, "free")
	v.get("/dashboard/keys")
	token := v.at.token()
	for id, c := range map[string]struct {
		fields []string
		want   string
	}{
		"name-error":  {[]string{"name", " ", "scope", "check"}, "The name must have 1 to 60 visible characters"},
		"scope-error": {[]string{"name", "a"}, "Choose what the key may be used for."},
		"networks-error": {[]string{"name", "a", "scope", "check", "networks", "192.0.2.0/24 office"},
			`"office" is neither an address nor a network`},
		"until-error": {[]string{"name", "a", "scope", "check", "until", "2020-01-31"}, "must not be in the past"},
	} {
		p := v.post("/dashboard/keys", append([]string{"csrf", token}, c.fields...)...)
		expect.That(t, p.status == 400 && strings.Contains(p.text(id), c.want), "%s: status %d, %q, want %q", id,
			p.status, p.text(id), c.want)
		described := false
		for n := range p.root.Descendants() {
			described = described || strings.HasPrefix(attribute(n, "aria-describedby"), id)
			if name := attribute(n, "name"); name == "networks" && len(c.fields) > 4 && c.fields[4] == name {
				expect.Equal(t, "the entered networks", attribute(n, "value"), c.fields[5])
			}
		}
		expect.That(t, described && strings.Count(p.body, `role="alert"`) == 1,
			"%s: not the only error, or no field refers to it", id)
	}
	v.is(400, "Keys")
	expect.Equal(t, "keys", len(expect.Value(s.store.Keys(t.Context(), account(t, s, v.token())))(t)), 1)
}
