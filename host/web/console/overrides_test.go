package console

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"assay/host/check"
	"assay/host/customer/override"
	"assay/host/entity"
	"assay/registry/expect"
)

// testOverridesPage sets, replaces and removes verdicts without JavaScript.
func testOverridesPage(t *testing.T, s *site) {
	v, key := s.customer(t, "free")
	day := s.clock.Load().UTC().AddDate(0, 0, 30).Format(time.DateOnly)
	v.follow("Overrides").is(200, "No overrides yet: the layers decide every check.")
	v.press("Save", "action", "block", "kind", "email", "value", "Jane.Roe@example.net", "reason", "<b>chargebacks</b>",
		"until", day).is(200, "The override is saved. It takes effect within a second.")
	v.is(200, "block j...@example.net Email address", "<b>chargebacks</b>")
	expect.Equal(t, "the list shows the value", strings.Contains(strings.ToLower(v.at.body), "jane.roe"), false)
	v.press("Save", "action", "allow", "kind", "email", "value", "jane.roe+x@example.net", "reason", "refunded",
		"until", day).is(200, "The override is saved in place of the earlier one for the same value.")
	v.is(200, "allow j...@example.net Email address", "refunded")

	other, _ := s.customer(t, "pro")
	other.get("/dashboard/overrides").is(200, "No overrides yet")
	list, err := s.store.Overrides(t.Context(), account(t, s, v.token()))
	expect.Must(t, err == nil && len(list) == 1, "listed %v, %v", list, err)
	other.post("/dashboard/overrides/" + list[0].ID + "/remove")

	// The id that signals cite finds it, and it changes without its value.
	v.get("/dashboard/overrides?find="+strings.ToLower(list[0].ID)).is(200, list[0].ID, "by dashboard")
	v.get("/dashboard/overrides?find=nothing")
	v.lacks(list[0].ID)
	v.get("/dashboard/overrides")
	v.follow("Change").is(200, "Change an override", list[0].ID)
	v.press("Save", "reason", "refunded twice", "author", "Mia").is(400, "Change an override", "The action must be")
	v.press("Save", "action", "block", "reason", "refunded twice", "author", "Mia")
	v.is(200, "in place of the earlier one", "j...@example.net Email address", "refunded twice", "by Mia")
	other.post("/dashboard/overrides", "csrf", other.get("/dashboard/overrides").token(), "edit", list[0].ID, "action",
		"allow", "reason", "x", "until", day).is(404, "The override was already removed.")

	s.record(t, key, entity.Email, "jane.roe@example.net", check.Allow)
	v.get("/dashboard/privacy")
	v.press("Find", "who", "jane.roe@example.net").is(200, "Overrides: block until")
	v.get("/dashboard/overrides")
	v.press("Remove").is(200, "The override is removed. The layers decide again within a second.", "No overrides yet")
}

func testOverridesPageErrors(t *testing.T, s *site) {
	v, _ := s.customer(t, "pro")
	now := s.clock.Load().UTC()
	day, late := now.AddDate(0, 0, 30).Format(time.DateOnly), now.AddDate(0, 0, 366).Format(time.DateOnly)
	for _, test := range []struct{ kind, value, reason, until, field, want string }{
		{"domain", "example", "x", day, "value", "The domain has no dot"},
		{"registrable_domain", "www.example.com", "x", day, "value", "The registrable domain must be 'example.com'"},
		{"number_range", "030 12", "x", day, "value", "The number range must begin with '+'"},
		{"iban", "DE", "x", day, "value", "The IBAN is shorter than"},
		{"bank", "DE12", "x", day, "value", "The bank must be DE and the 8 characters"},
		{"domain", "example.com", " ", day, "reason", "The reason is required"},
		{"domain", "example.com", "x", late, "until", "The last day must be within a year"},
		{"domain", "example.com", "x", "soon", "until", "The last day must be a day such as"},
		{"nonsense", "example.com", "x", day, "kind", "The kind is unknown"},
	} {
		v.get("/dashboard/overrides")
		v.press("Save", "action", "block", "kind", test.kind, "value", test.value, "reason", test.reason,
			"until", test.until)
		field, text := v.at.problem()
		expect.That(t, v.at.status == 400 && field == test.field && strings.HasPrefix(text, test.want),
			"%+v: status %d, field %s: %s", test, v.at.status, field, text)
		v.is(400, "No overrides yet")
	}
	v.post("/dashboard/overrides/ovr_01KF0HBGZ0Q8WJ3V5N7T9R2M4C/remove")
}

// testListPages walks through a list that is longer than a page.
func testListPages(t *testing.T, s *site) {
	v, key := s.customer(t, "pro")
	caller := expect.Value(s.store.Authenticate(t.Context(), key))(t)
	for n := range rowsPerPage + 1 {
		target, err := override.ParseTarget(override.Domain, fmt.Sprintf("n%02d.example", n), "")
		if err == nil {
			_, err = s.store.AddOverride(t.Context(), caller, override.Wanted{Action: check.Block, Target: target,
				Reason: fmt.Sprintf("reason %02d", n), ExpiresAt: s.clock.Load().Add(time.Hour)})
		}
		expect.NoError(t, err)
	}
	v.follow("Overrides").is(200, "Page 1 of 2 Next")
	expect.That(t, !strings.Contains(v.at.body, "reason 00") && strings.Count(v.at.body, "/remove") == rowsPerPage,
		"the first page shows more than the newest overrides")
	v.follow("Next").is(200, "Previous Page 2 of 2")
	expect.That(t, strings.Contains(v.at.body, "reason 00") && strings.Count(v.at.body, "/remove") == 1,
		"the second page does not show the oldest override alone")
	for _, page := range []string{"0", "-1", "x"} {
		v.get("/dashboard/overrides?page="+page).is(200, "Page 1 of 2")
	}
	v.get("/dashboard/overrides?page=3").is(200, "Page 2 of 2")
}
