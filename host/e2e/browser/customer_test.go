package browser

import (
	"fmt"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/jackc/pgx/v5"

	"assay/host/hosttest"
	"assay/host/store/storetest"
	"assay/host/web/mail/mailtest"
	"assay/registry/expect"
)

// newcomer is a new customer in front of a browser.
type newcomer struct {
	*person
	host     *hosttest.HostProcess
	receiver string      // the URL of the customer's receiver
	broken   atomic.Bool // whether it refuses events
	events   chan string // references of the events that it accepted
	mailbox  *mailtest.Server
	conn     *pgx.Conn
	key      string
	code     string // signs in
}

// publicURL begins the links in messages.
const publicURL = "http://assay.example"

// TestCustomer follows a new customer through every page in a browser: from the landing page to the first webhook, a
// blocked check that is explained and overridden, and a lost sign-in code. Another one has no mouse.
func TestCustomer(t *testing.T) {
	t.Parallel()
	mailbox := mailtest.Start(t, mailtest.Plain)
	dir, database, host := hosttest.NewHost(t, "--webhook-allow=127.0.0.0/8", "--test-checkout",
		"--public-url="+publicURL, "--smtp-url=smtp://"+mailbox.Addr+"?from=assay%40example.com")
	n := &newcomer{person: browse(t), host: host, events: make(chan string, 100), mailbox: mailbox,
		conn: storetest.Session(t, database)}
	n.receiver, _ = hosttest.Receive(t, func(c hosttest.Call) int {
		if n.broken.Load() {
			return http.StatusInternalServerError
		}
		n.events <- c.Ref()
		return http.StatusOK
	})
	n.subscribe()
	secret := n.connect()
	n.explain(n.receive())
	n.manage()
	n.fillIn()
	n.signOut()
	n.recover()
	n.keyboard(host, dir, database)
	log, err := os.ReadFile(filepath.Join(dir, "logs", "assay.log"))
	expect.That(t, err == nil && !strings.Contains(string(log), n.key) && !strings.Contains(string(log), secret),
		"the log holds a secret, or cannot be read: %v", err)
	expect.That(t, strings.Contains(string(log), "an erasure was requested"), "the log lacks the erasure")
	host.Stop(t, syscall.SIGTERM)
}

// await waits until the receiver has accepted an event.
func (n *newcomer) await(ref string) {
	n.Helper()
	for got := ""; got != ref; {
		got = storetest.Receive(n, "an event", n.events)
	}
}

// subscribe tries a check, pays, and stores the key.
func (n *newcomer) subscribe() {
	n.do(chromedp.Navigate(n.host.URL))
	n.see("Prices")
	n.write("domain", "paypa1 secure").press("Check", "The domain contains a space.")
	n.until("the focus in the field with the error",
		`document.activeElement.id === "domain" && document.activeElement.ariaInvalid === "true"`)
	n.write("domain", "paypa1-secure-login.xyz").press("Check", "Reference chk_").see("block").look("landing")
	n.press("Docs", "Act on the verdict").press("Checks", "Without a key")
	n.do(chromedp.Click("[value=python]"))
	n.look("docs-checks")
	n.press("Scores", "What a score means").look("docs-scores")
	n.press("Errors", "Decide in advance")
	n.until("the language chosen before", `document.querySelector(".tabbed :checked").value === "python"`)
	n.press("Prices", "Subscribe to Starter").press("Subscribe to Starter", "Pay with card")
	n.write("number", "4000 0000 0000 0002", "expiry", "12 / 40", "cvc", "123", "name", "Jane Doe")
	n.press("Subscribe", "Your card was declined.").look("checkout")
	n.write("number", "4242 4242 4242 4242", "expiry", "12 / 40", "cvc", "123")
	n.press("Subscribe", "This is your API key.").look("done")
	first := n.read("key")
	n.do(chromedp.Reload())
	n.see("Your key was already shown").press("Issue another key", "This is your API key.")
	n.key, n.code = n.read("key"), n.read("code")
	expect.That(n, n.key != first && hosttest.Post(http.DefaultClient, n.host.URL, first,
		`{"domain":"example.com"}`).Status == 401, "the first key was not replaced")
	n.press("Go to the dashboard", "This month").look("overview-new")
}

// fillIn creates a test key, which the browser fills into the documentation's snippets.
func (n *newcomer) fillIn() {
	n.press("Keys", "New key")
	n.write("name", "trial")
	n.do(chromedp.Click("[name=test]"))
	n.press("Create key", "This is the new key.")
	key := n.read("issued")
	n.press("Docs", "The snippets have your test key")
	for language, want := range map[string]string{"sh": "Bearer " + key + `"`, "go": `"` + key + `"`,
		"ts": `"` + key + `"`, "python": `"` + key + `"`} {
		if text := n.read("code-1-" + language); !strings.Contains(text, want) || strings.Contains(text, "ASSAY_KEY") {
			n.Errorf("the snippet in %s: %s", language, text)
		}
	}
	n.press("Overview", "This month")
}

// connect sets the webhook and returns its secret.
func (n *newcomer) connect() (secret string) {
	n.press("Webhooks", "Every review and block is posted to")
	n.write("url", "http://169.254.169.254/latest").press("Save", "Webhook URL:").look("webhooks-error")
	n.write("url", n.receiver+"/hook").press("Save", "This is the secret that signs events.")
	secret = n.read("secret")
	n.look("webhooks-new")
	return secret
}

// receive makes the first check, whose reference it returns, and one whose webhook the receiver does not accept.
func (n *newcomer) receive() (ref string) {
	a := hosttest.CheckUntilComplete(n.host, n.key, `{"domain":"paypa1-secure-login.xyz"}`)
	expect.Must(n, a.Status == 200 && a.Verdict == "block", "the check got %+v", a)
	n.await(a.Ref)
	n.broken.Store(true)
	failing := hosttest.CheckOnce(n.host, n.key, `{"domain":"paypal-account-verify.top"}`)
	expect.Must(n, failing.Status == 200 && failing.Verdict != "allow", "the second check got %+v", failing)
	return a.Ref
}

// explain has a blocked check explained, reports it as legitimate, and allows its value.
func (n *newcomer) explain(ref string) {
	n.press("Checks", "for twelve months").press(ref, "its content matches its hash")
	n.write("value", "paypa1-secure-login.xyz").press("Explain", "Every 10 points double the odds of fraud")
	n.see("Imitates PayPal").look("check")
	n.write("label", "legitimate").press("Report", "The feedback is saved.").press("Overrides", "No overrides yet")
	n.write("value", "www.example.com", "kind", "registrable_domain", "reason", "our own shop")
	n.write("until", time.Now().UTC().AddDate(0, 0, 30).Format(time.DateOnly))
	n.press("Save", "must be 'example.com', without a subdomain").look("overrides-error")
	n.write("action", "allow", "kind", "domain", "value", "paypa1-secure-login.xyz")
	n.press("Save", "The override is saved.").look("overrides")
	n.until("the override in force", fmt.Sprintf(`fetch("/api/check", { method: "POST", body: %q, headers: {
		Authorization: "Bearer %s", "Content-Type": "application/json" }}).then((r) => r.json())
		.then((a) => a.verdict === "allow")`, `{"domain":"paypa1-secure-login.xyz"}`, n.key), chromedp.EvalAwaitPromise)
}

// manage rotates a key, changes the plan, answers a person's request and sends a failed event again.
func (n *newcomer) manage() {
	n.press("Keys", "All keys share the account's quota").press("Rotate", "This is the new key.").look("keys")
	for _, k := range []string{n.key, n.read("issued")} {
		a := hosttest.Post(http.DefaultClient, n.host.URL, k, `{"domain":"example.com"}`)
		expect.That(n, a.Status == 200, "within the overlap a key got %+v", a)
	}
	n.press("Plan", "Change to Pro").press("Change to Pro", "What you pay").look("change")
	n.press("Pay €80 and change to Pro", "The change is made.").look("plan")
	n.press("Overview", "Recent checks")
	n.capture("overview") // also the picture in README.md
	n.press("As a table", "Hour (UTC)")
	n.write("value", "DE89370400440532013000").press("Check", "Every 10 points double the odds of fraud").see("iban")
	expect.That(n, evaluate[bool](n.person, `document.getElementById("days").open`),
		"a check folds the table of the chart")
	n.look("overview")
	n.until("a stale form", `!document.querySelectorAll("[name=csrf]").forEach((field) => { field.value = ""; })`)
	n.press("Check", "This form is out of date.").press("By day, key and type", "By day and verdict").look("usage")
	n.press("Checks", "for twelve months").press("CSV", " saved.").look("checks")
	n.press("Privacy", "A person decides").look("privacy")
	n.write("who", "nobody-knows.example").press("Find", "Your account has no data")
	n.write("who", "paypal-account-verify.top").press("Find", "Subject reference").look("privacy-found")
	n.press("Webhooks", "Delivered").press("Failed", "Failed")
	// The page updates itself once the attempts have failed, which takes 21 s without this.
	expect.Until(n, "an event to have failed", func() bool {
		storetest.Exec(n, n.conn, `UPDATE webhook_events
			SET state = 'failed', next_attempt_at = NULL, settled_at = now()
			WHERE tries > 0 AND leased_until IS NULL AND state = 'pending'`)
		return storetest.Value[bool](n, n.conn, "SELECT EXISTS (SELECT FROM webhook_events WHERE state = 'failed')")
	})
	n.until("the failed event", `!!document.querySelector("[id^=resend-]")`)
	n.look("webhooks")
	n.press("Attempts", "thanks for").look("event")
	n.broken.Store(false)
	ref, _, _ := strings.Cut(evaluate[string](n.person, `location.pathname.split("/").pop()`), "?")
	n.press("All events", "Resend all events that failed since")
	n.until("the button to resend", fmt.Sprintf(`(() => {
		const button = document.getElementById("resend-%s");
		if (button) button.click();
		return !!button;
	})()`, ref))
	n.see("The event is on its way again.")
	n.await(ref)
	n.press("Privacy", "A person decides")
	n.write("who", "paypal-account-verify.top").press("Find", "Subject reference")
	n.press("Erase …", "This cannot be undone").look("privacy-confirm")
	n.press("Erase permanently", "Permanently erased: 1 check").look("privacy-erased")
	for _, agent := range []string{"Edg/150.0 Windows NT 10.0", "Firefox/150.0 Android 16"} {
		request := expect.Value(http.NewRequestWithContext(n.Context(), http.MethodPost, n.host.URL+"/signin",
			strings.NewReader(url.Values{"code": {n.code}}.Encode())))(n)
		request.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		request.Header.Set("User-Agent", "Mozilla/5.0 "+agent)
		expect.NoError(n, expect.Value(http.DefaultClient.Do(request))(n).Body.Close())
	}
	n.press("Account", "Signed-in browsers").look("account")
	n.write("email", "owner@example.org").press("Send a link", "A link is on its way.")
	n.open(n.mailbox.Next(n.T).Text)
	n.see("This link confirms your e-mail address").look("link-confirm")
	n.press("Confirm the address", "Your e-mail address is confirmed.")
}

func (n *newcomer) signOut() {
	n.press("Sign out", "Prices").press("Sign in", "It was shown next to your API key.")
}

// recover signs in with a link by mail after the code was lost. It has the code replaced, which then signs in.
func (n *newcomer) recover() {
	n.look("signin")
	n.write("code", "nonsense")
	n.submit("#code", "A character is wrong, missing or too many.").look("signin-error")
	n.write("code", n.key)
	n.submit("#code", "This is an API key, which does not sign in.")
	n.write("email", "owner@example.org").press("Send me a link", "Check your inbox").look("mailed")
	n.open(n.mailbox.Next(n.T).Text)
	n.see("This link signs you in to this browser.").look("link")
	n.do(chromedp.Submit("main form"))
	n.see("Signed-in browsers").press("Replace the code", "This is your new sign-in code.")
	lost := n.code
	n.code = n.read("code")
	n.signOut()
	n.write("code", lost)
	n.submit("#code", "There is no such sign-in code.")
	n.write("code", n.code)
	n.submit("#code", "This month")
}

func (n *newcomer) open(message string) {
	_, rest, _ := strings.Cut(message, publicURL)
	path, _, _ := strings.Cut(rest, "\n")
	n.do(chromedp.Navigate(n.host.URL + path))
}
