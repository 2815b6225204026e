package console

import (
	"strings"
	"testing"

	"assay/registry/expect"
)

// testWithoutJavaScript follows a customer through all pages by links and forms alone.
func testWithoutJavaScript(t *testing.T, s *site) {
	v := s.visit(t)
	v.get("/").is(200, "Prices")
	v.press("Check", "domain", "example.com").is(200, "Reference chk_")
	v.press("Check", "domain", "no domain").is(400, "The domain contains a space.")
	v.follow("Docs").is(200, "Act on the verdict")
	v.follow("Sign in")
	v.press("Sign in", "code", "nonsense").is(400, "A character is wrong, missing or too many.")
	v.follow("Prices")
	v.press("Subscribe to Starter").is(200, "Pay with card")
	card := []string{"number", "4000000000000002", "expiry", "12/40", "cvc", "123", "name", "Jane Doe"}
	v.press("Subscribe", card...).is(402, "Your card was declined.")
	card[1] = "4111111111111111"
	v.press("Subscribe", card...).is(402, "Real cards are not accepted.")
	v.lacks(card[1])
	card[1] = "4242 4242 4242 4242"
	v.press("Subscribe", card...).is(200, "This is your API key.")
	lost := v.at.text("code")
	v.get(donePath).is(410, "Your key was already shown")
	v.press("Issue another key").is(200, "This is your API key.")
	key, code := v.at.text("key"), v.at.text("code")
	v.follow("Go to the dashboard").is(200, "0 of 150 checks")
	v.press("Check", "value", "DE89370400440532013000", "type", "auto").is(200, "Reference chk_")
	v.follow("Checks").is(200, "No checks yet.")

	v.follow("Keys")
	v.press("Create key", "name", "staging").is(200, "This is the new key.")
	v.press("Rotate").is(200, "works until")
	expect.Equal(t, "the page does not offer to revoke three keys", strings.Count(v.at.body, "/revoke"), 3)
	v.press("Revoke").is(200, "The key is revoked.")

	v.follow("Webhooks")
	v.press("Save", "url", "http://10.0.0.1/").is(400, "Webhook URL:")
	v.press("Save", "url", "https://hooks.example.com/a").is(200, "This is the secret that signs events.")
	first := v.at.text("secret")
	v.press("Save", "url", "https://hooks.example.com/b").is(200, "Its secret stays the same.")
	v.press("Rotate secret")
	again := v.at.text("secret")
	expect.That(t, again != first && strings.HasPrefix(again, "whsec_"), "rotated to %q", again)
	v.press("Send a test event").is(200, "A test event is on its way.")
	v.follow("Attempts").is(200, "No attempts yet.")
	v.follow("All events")
	v.press("Resend", "since", "soon").is(400, "The day must be a date")
	v.press("Resend", "since", "2026-01-31").is(200, "on their way again")
	v.press("Remove").is(200, "The webhook is removed.")

	v.follow("Plan")
	v.follow("Change to Pro")
	v.press("Pay €80 and change to Pro").is(200, "You are on Pro: 0 of 1,500")
	v.press("Cancel subscription").is(200, "ends on")
	v.press("Keep Pro").is(200, "The change is made.")
	v.press("Sign out").is(200, "Prices")
	v.get("/dashboard").is(200, "It was shown next to your API key.")
	v.press("Sign in", "code", lost).is(401, "There is no such sign-in code.")
	v.press("Sign in", "code", key).is(401, "an API key, which does not sign in")
	v.press("Sign in", "code", " "+strings.ToLower(code)+"\n").is(200, "This month")

	v.follow("Account").is(200, "Unknown browser (this browser)")
	v.press("Replace the code").is(200, "This is your new sign-in code.")
	newer := v.at.text("code")
	v.press("Sign out")
	v.follow("Sign in")
	v.press("Sign in", "code", code).is(401, "Was it replaced by a newer one?")
	v.press("Sign in", "code", newer).is(200, "This month")
}

// testRejectedWebhookURLs checks that a URL that must not be called is rejected when it is saved, and stays in the
// field to be corrected.
func testRejectedWebhookURLs(t *testing.T, s *site) {
	v, _ := s.customer(t, "starter")
	v.follow("Webhooks")
	const address = "https://user:password@example.com/"
	v.press("Save", "url", address)
	field := ""
	for n := range v.at.root.Descendants() {
		if attribute(n, "id") == "url" {
			field = attribute(n, "value")
		}
	}
	v.is(400, "Webhook URL: ")
	expect.Equal(t, "the field contains", field, address)
	endpoints, err := s.store.Endpoints(t.Context(), account(t, s, v.token()))
	expect.That(t, err == nil && len(endpoints) == 0, "the saved endpoints are %v, %v; want none", endpoints, err)
}
