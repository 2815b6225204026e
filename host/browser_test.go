package main

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"

	"assay/host/mail/mailtest"
	"assay/host/postgres/postgrestest"
)

// person is a user of a browser.
type person struct {
	*testing.T
	tab  context.Context
	axe  string // the accessibility checker's source
	shot string // directory of screenshots, or "" for none
}

// remoteName is a name of this machine that browsers do not treat as local, unlike loopback addresses. Pages from there
// behave like any other page without TLS.
const remoteName = "assay.test"

// browse starts Chromium. ASSAY_SCREENSHOTS names a directory for screenshots.
func browse(t *testing.T) *person {
	t.Helper()
	chromium, err := exec.LookPath("chromium")
	if err != nil {
		t.Skip("chromium is not installed: on Debian, apt-get install chromium")
	}
	axe, err := os.ReadFile(filepath.Join("console", "node_modules", "axe-core", "axe.min.js"))
	if err != nil {
		t.Skip("the accessibility checker is not installed: npm ci --prefix host/console")
	}
	options := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath(chromium), chromedp.NoSandbox,
		chromedp.DisableGPU, chromedp.Flag("disable-quic", true), chromedp.Flag("disable-component-update", true),
		chromedp.UserDataDir(t.TempDir()),
		chromedp.Flag("host-resolver-rules", "MAP "+remoteName+" 127.0.0.1"))
	allocated, stop := chromedp.NewExecAllocator(context.WithoutCancel(t.Context()), options...)
	t.Cleanup(stop)
	tab, closeTab := chromedp.NewContext(allocated)
	t.Cleanup(closeTab)
	tab, cancel := context.WithTimeout(tab, 15*time.Minute) // includes building the layers
	t.Cleanup(cancel)
	p := &person{T: t, tab: tab, axe: string(axe), shot: os.Getenv("ASSAY_SCREENSHOTS")}
	p.do(chromedp.EmulateViewport(1100, 800))
	return p
}

// do runs an action, which must succeed.
func (p *person) do(action chromedp.Action[chromedp.Void]) {
	p.Helper()
	if _, err := chromedp.Run(p.tab, action); err != nil {
		p.fail(err.Error())
	}
}

// fail ends the test with a message and the text of the page.
func (p *person) fail(what string) {
	p.Helper()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(p.tab), 10*time.Second)
	defer cancel()
	page, _ := chromedp.Run(ctx, chromedp.Text("body"))
	p.Fatalf("%s, on the page:\n%s", what, page)
}

// evaluate returns the value of a script. It retries on errors, which occur when the page changes meanwhile, so the
// script must be safe to repeat.
func evaluate[T any](p *person, script string, options ...chromedp.EvaluateOption) T {
	p.Helper()
	return awaited(p, "an answer to "+script[max(0, len(script)-200):], script, func(T) bool { return true },
		options...)
}

// awaited evaluates a script until its value is good.
func awaited[T any](p *person, what, script string, good func(T) bool, options ...chromedp.EvaluateOption) T {
	p.Helper()
	patience, cancel := context.WithTimeout(p.tab, 90*time.Second)
	defer cancel()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		v, err := chromedp.Run(patience, chromedp.Evaluate[T](script, options...))
		if err == nil && good(v) {
			return v
		}
		select {
		case <-tick.C:
		case <-patience.Done():
			p.fail(fmt.Sprintf("no %s (last error: %v)", what, err))
		}
	}
}

// scheme sets the preferred color scheme: light or dark.
func scheme(name string) chromedp.Action[chromedp.Void] {
	return chromedp.Func(func(ctx context.Context, t *chromedp.Target) error {
		features := []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: name}}
		_, err := cdp.Call(ctx, t, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{Features: features})
		return err
	})
}

// until waits until a condition is true.
func (p *person) until(what, condition string) {
	p.Helper()
	awaited(p, what, condition, func(holds bool) bool { return holds })
}

// see waits until the page shows a text.
func (p *person) see(text string) {
	p.Helper()
	p.until(text, fmt.Sprintf("!!document.body && document.body.innerText.includes(%q)", text))
}

// press waits for the button or link with a label, clicks it once, and waits for a text on the following page. It
// ignores errors of the click itself, because the click may have worked.
func (p *person) press(label, then string) {
	p.Helper()
	find := fmt.Sprintf(`[...document.querySelectorAll("button, a")].find((e) => e.innerText.trim() === %q)`, label)
	p.until(label, fmt.Sprintf(`document.readyState === "complete" && !!%s`, find))
	_, err := chromedp.Run(p.tab, chromedp.Evaluate[bool](fmt.Sprintf(`(() => { %s.click(); return true; })()`, find)))
	if err != nil {
		p.Logf("clicking %s: %v", label, err)
	}
	p.see(then)
}

func (p *person) write(field, text string) {
	p.Helper()
	p.until("field "+field, fmt.Sprintf(
		`document.readyState === "complete" && (document.getElementById(%q).value = %q, true)`, field, text))
}

func (p *person) read(id string) string {
	p.Helper()
	return strings.TrimSpace(evaluate[string](p, fmt.Sprintf("document.getElementById(%q).innerText", id)))
}

// look checks that the page has no serious accessibility problems in both color schemes, and no horizontal scrolling on
// screens from 320 to 1440 pixels. It also saves screenshots.
func (p *person) look(name string) {
	p.Helper()
	for _, light := range []string{"light", "dark"} {
		p.do(scheme(light))
		found := evaluate[[]violation](p, p.axe+"; axe.run().then((r) => r.violations)", chromedp.EvalAwaitPromise)
		for _, v := range found {
			if v.Impact == "serious" || v.Impact == "critical" {
				p.Errorf("%s in %s: %s (%s): %v", name, light, v.Help, v.ID, v.Nodes)
			}
		}
		p.capture(name + "-" + light)
	}
	for _, width := range []int64{320, 390, 768, 1440} {
		p.do(chromedp.EmulateViewport(width, 844, chromedp.EmulateMobile))
		const excess = "document.documentElement.scrollWidth - document.documentElement.clientWidth"
		if pixels := evaluate[int](p, excess); pixels > 0 {
			p.Errorf("%s is %d pixels wider than a screen of %d", name, pixels, width)
		}
		p.capture(fmt.Sprintf("%s-%d", name, width))
	}
	p.do(scheme("light"))
	p.do(chromedp.EmulateViewport(1100, 800))
}

// violation is a problem found by the accessibility checker.
type violation struct {
	ID     string `json:"id"`
	Impact string `json:"impact"`
	Help   string `json:"help"`
	Nodes  []struct {
		HTML    string `json:"html"`
		Summary string `json:"failureSummary"`
	} `json:"nodes"`
}

func (p *person) capture(name string) {
	p.Helper()
	if p.shot == "" {
		return
	}
	picture, err := chromedp.Run(p.tab, chromedp.FullScreenshot(100))
	if err != nil {
		p.fail(err.Error())
	}
	if err := os.WriteFile(filepath.Join(p.shot, name+".png"), picture, 0o644); err != nil {
		p.Fatal(err)
	}
}

// receiver is a customer's webhook receiver. It verifies signatures.
type receiver struct {
	*httptest.Server
	secret atomic.Pointer[string]
	broken atomic.Bool
	events chan string // references of the accepted events
	forged atomic.Int64
}

func newReceiver(t *testing.T) *receiver {
	r := &receiver{events: make(chan string, 100)}
	r.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		body, err := io.ReadAll(req.Body)
		if err != nil || r.broken.Load() {
			http.Error(w, "out of order", http.StatusInternalServerError)
			return
		}
		mac := hmac.New(sha256.New, []byte(*r.secret.Load()))
		mac.Write(body)
		if !hmac.Equal([]byte("sha256="+hex.EncodeToString(mac.Sum(nil))),
			[]byte(req.Header.Get("X-Service-Signature"))) {
			r.forged.Add(1)
			http.Error(w, "forged", http.StatusUnauthorized)
			return
		}
		var event struct{ Data struct{ Ref string } }
		if err := json.Unmarshal(body, &event); err != nil {
			t.Error(err)
		}
		r.events <- event.Data.Ref
	}))
	t.Cleanup(r.Close)
	return r
}

// TestCustomer follows a customer through a browser: the landing page, the test checkout, the key, checks, webhooks, a
// rotated key, privacy requests, signing out, and recovering the account.
func TestCustomer(t *testing.T) {
	t.Parallel()
	p := browse(t)
	receiver := newReceiver(t)
	dir, database := dataDir(t), postgrestest.Database(t)
	mailbox := mailtest.Start(t, mailtest.Plain)
	const publicURL = "http://assay.example"
	host := startHost(t, dir, database, "--webhook-allow=127.0.0.0/8", "--dns=off", "--public-url="+publicURL,
		"--smtp-url=smtp://"+mailbox.Addr+"?from=assay%40example.com", "--test-checkout")
	open := func(text string) { // follows a link in a message
		_, rest, _ := strings.Cut(text, publicURL)
		path, _, _ := strings.Cut(rest, "\n")
		p.do(chromedp.Navigate(host.url + path))
	}

	p.do(chromedp.Navigate(host.url))
	p.see("Prices")
	p.write("domain", "paypa1-secure-login.xyz")
	p.press("Check", "Reference chk_")
	p.see("block")
	p.look("landing")
	p.press("Docs", "API documentation")
	p.look("docs")
	p.press("Prices", "Subscribe to Starter")

	p.press("Subscribe to Starter", "Pay with card")
	p.write("number", "4000 0000 0000 0002")
	p.write("expiry", "12 / 40")
	p.write("cvc", "123")
	p.write("name", "Jane Doe")
	p.press("Subscribe", "Your card was declined.")
	p.look("checkout")
	p.write("number", "4242 4242 4242 4242")
	p.write("expiry", "12 / 40")
	p.write("cvc", "123")
	p.press("Subscribe", "This is your API key.")
	p.look("done")
	key := p.read("key")
	p.do(chromedp.Reload())
	p.see("Your key was already shown")
	p.press("Issue another key", "This is your API key.")
	if again := p.read("key"); again == key ||
		post(http.DefaultClient, host.url, key, `{"domain":"example.com"}`).Status != 401 {
		t.Error("the first key was not replaced")
	} else {
		key = again
	}

	p.press("Go to the dashboard", "This month")
	p.press("Webhooks", "Every review and block is posted to")
	p.write("url", "http://169.254.169.254/latest")
	p.press("Save", "Webhook URL:")
	p.write("url", receiver.URL+"/hook")
	p.press("Save", "This is the secret that signs events.")
	secret := p.read("secret")
	receiver.secret.Store(&secret)
	p.look("webhooks-new")

	a := checkOnce(host, key, `{"domain":"paypa1-secure-login.xyz"}`)
	if a.Status != 200 || a.Verdict == "allow" {
		t.Fatalf("the check got %+v", a)
	}
	receiver.await(t, a.Ref)
	receiver.broken.Store(true)
	a = checkOnce(host, key, `{"domain":"paypal-account-verify.top"}`)
	if a.Status != 200 || a.Verdict == "allow" {
		t.Fatalf("the second check got %+v", a)
	}
	p.press("Webhooks", "Delivered")
	p.press("Failed", "No failed events yet.")
	// The page updates itself once the attempts have failed.
	p.until("the failed event", `!!document.querySelector("[id^=resend-]")`)
	p.look("webhooks")
	p.press("Attempts", "out of order")
	p.look("event")
	receiver.broken.Store(false)
	p.press("All events", "Resend all events that failed since")
	p.press("Resend", "The event is on its way again.")
	receiver.await(t, a.Ref)

	p.press("Keys", "All keys share the account's quota")
	p.press("Rotate", "This is the new key.")
	p.look("keys")
	rotated := p.read("issued")
	for _, k := range []string{key, rotated} {
		if a := post(http.DefaultClient, host.url, k, `{"domain":"example.com"}`); a.Status != 200 {
			t.Errorf("within the overlap a key got %+v", a)
		}
	}
	p.press("Plan", "Change to Pro")
	p.press("Change to Pro", "Your plan has changed.")
	p.look("plan")
	p.press("Overview", "of 1500 checks")
	p.write("value", "DE89370400440532013000")
	p.press("Check", "Reference chk_")
	p.see("iban")
	p.look("overview")
	p.press("By day, key and type", "By day and verdict")
	p.look("usage")
	p.press("Checks", "for twelve months")
	p.press("CSV", " saved.")
	p.look("checks")
	p.press(evaluate[string](p, `document.querySelector("td a code").innerText`), "its content matches its hash")
	p.write("value", "DE89370400440532013000")
	p.press("Explain", "Every 10 points double the odds of fraud")
	p.look("check")
	p.press("Overrides", "No overrides yet")
	p.write("value", "www.example.com")
	p.write("kind", "registrable_domain")
	p.write("reason", "fraud ring of March")
	p.write("until", time.Now().UTC().AddDate(0, 0, 30).Format(time.DateOnly))
	p.press("Save", "is a name below the registrable domain")
	p.look("overrides-error")
	p.write("value", "example.com")
	p.press("Save", "The override is saved.")
	p.look("overrides")
	p.press("Privacy", "A person decides")
	p.look("privacy")
	p.write("who", "paypa1-secure-login.xyz")
	p.press("Find", "Subject reference")
	p.look("privacy-found")
	p.press("Erase …", "This cannot be undone")
	p.look("privacy-confirm")
	p.press("Erase permanently", "Permanently erased: 1 check")
	p.look("privacy-erased")
	p.press("Sign out", "Prices")
	p.press("Sign in", "It was shown next to your API key.")
	p.look("signin")
	p.write("code", "nonsense")
	p.do(chromedp.Submit("#code"))
	p.see("A character is wrong, missing or too many.")
	p.look("signin-error")
	p.write("code", key)
	p.do(chromedp.Submit("#code"))
	p.see("its API keys do not sign in")
	account := outputJSON[[]struct{ Account string }](t, dir, database, "keys", "list")[0].Account
	recovery := outputJSON[struct{ Link string }](t, dir, database, "accounts", "signin", account,
		"--public-url="+host.url)
	p.do(chromedp.Navigate(recovery.Link))
	p.see("This link signs this browser in.")
	p.look("link")
	p.do(chromedp.Submit("main form"))
	p.see("Signed-in browsers")
	p.look("account")
	p.press("Replace the code", "This is your new sign-in code.")
	code := p.read("code")
	p.write("email", "owner@example.org")
	p.press("Send a link", "A link is on its way.")
	open(mailbox.Next(t).Text)
	p.see("With this link you confirm")
	p.look("link-confirm")
	p.press("Confirm the address", "Your e-mail address is confirmed.")
	p.press("Sign out", "Prices")
	p.press("Sign in", "It was shown next to your API key.")
	p.write("email", "owner@example.org")
	p.press("Send me a link", "Look into your mailbox")
	p.look("mailed")
	open(mailbox.Next(t).Text)
	p.see("This link signs this browser in.")
	p.do(chromedp.Submit("main form"))
	p.see("Signed-in browsers")
	p.press("Sign out", "Prices")
	p.press("Sign in", "It was shown next to your API key.")
	p.write("code", code)
	p.do(chromedp.Submit("#code"))
	p.see("This month")
	if n := receiver.forged.Load(); n != 0 {
		t.Errorf("%d events were not signed with the secret", n)
	}
	if log, err := os.ReadFile(filepath.Join(dir, "logs", "assay.log")); err != nil ||
		strings.Contains(string(log), key) || strings.Contains(string(log), secret) {
		t.Errorf("the log holds a secret, or cannot be read: %v", err)
	}
	host.stop(t, syscall.SIGTERM)
}

func (r *receiver) await(t *testing.T, ref string) {
	t.Helper()
	timeout := time.After(2 * time.Minute)
	for {
		select {
		case got := <-r.events:
			if got == ref {
				return
			}
		case <-timeout:
			t.Fatalf("no event for %s arrived", ref)
		}
	}
}

// focused is the element with the keyboard focus.
type focused struct {
	Name    string `json:"name"`
	Outline bool   `json:"outline"`
	Seen    bool   `json:"seen"` // visible in the window
}

// moveFocus presses a key that moves the focus, and returns the element that then has it.
func (p *person) moveFocus(key string) focused {
	p.Helper()
	p.do(chromedp.KeyEvent(key))
	return evaluate[focused](p, `(() => {
		const e = document.activeElement, at = e.getBoundingClientRect(), style = getComputedStyle(e);
		const label = e.labels && e.labels.length ? e.labels[0].innerText : e.innerText;
		return {
			name: (label || "").trim(), outline: parseFloat(style.outlineWidth) >= 2 && style.outlineStyle !== "none",
			seen: at.width > 0 && at.left >= 0 && at.top >= 0 && at.bottom <= innerHeight && at.right <= innerWidth,
		};
	})()`)
}

// TestKeyboard signs in and uses the dashboard without a mouse. The focus must survive updates of the page.
func TestKeyboard(t *testing.T) {
	t.Parallel()
	p := browse(t)
	dir, database := dataDir(t), postgrestest.Database(t)
	host := startHost(t, dir, database, "--webhook-allow=127.0.0.0/8", "--dns=off")
	owner := outputJSON[struct {
		Account string
		Code    string `json:"sign_in_code"`
	}](t, dir, database, "keys", "create", "--plan=pro")

	p.do(chromedp.Navigate(strings.Replace(host.url, "127.0.0.1", remoteName, 1) + "/signin"))
	p.see("It was shown next to your API key.")
	if at := p.moveFocus("\t"); at.Name != "Skip to content" || !at.Seen || !at.Outline {
		t.Errorf("the first focus is %+v", at)
	}
	p.do(chromedp.KeyEvent("\r"))
	if at := p.moveFocus("\t"); at.Name != "Sign-in code" || !at.Seen || !at.Outline {
		t.Errorf("the focus after skipping to the content is %+v", at)
	}
	p.do(chromedp.KeyEvent(owner.Code + "\r"))
	p.see("This month")
	p.until("the whole page", `document.readyState === "complete" && !!document.querySelector(".steps")`)
	for _, want := range []string{
		"Skip to content", "Assay", "Overview", "Checks", "Keys", "Webhooks", "Overrides", "Privacy", "Plan", "Account",
		"Docs", "Sign out",
		"Get a key", "Make the first check", "Receive webhooks", "Go live",
		"Change plan", "Value", "Type", "Country", "Check",
	} {
		if at := p.moveFocus("\t"); at.Name != want || !at.Outline || !at.Seen {
			t.Errorf("the next focus is %+v, want %s", at, want)
		}
	}

	p.press("Webhooks", "Every review and block is posted to")
	p.write("url", "http://127.0.0.1:1/nobody")
	p.press("Save", "This is the secret that signs events.")
	p.press("Send a test event", "A test event is on its way.")
	p.press("All", "Attempts")
	p.until("the list of events",
		`(() => { const e = document.querySelector("[id^=see-]"); if (e) e.focus(); return !!e; })()`)
	p.until("two updates",
		`performance.getEntriesByType("resource").filter((e) => e.initiatorType === "fetch").length >= 2`)
	if !evaluate[bool](p,
		`document.activeElement.id.startsWith("see-") && document.querySelectorAll("header").length === 1`) {
		t.Error("an update moved the focus, or inserted a page into the page")
	}
	evaluate[bool](p, `(window.workingFetch ??= window.fetch,
		window.fetch = () => Promise.reject(new TypeError("no connection")), true)`)
	p.see("This list is out of date")
	evaluate[bool](p, `(window.fetch = window.workingFetch, true)`)
	p.until("the list brought up to date",
		`!document.body.innerText.includes("This list is out of date") && !!document.querySelector("[id^=see-]")`)
	output(t, dir, database, "accounts", "signout", owner.Account)
	p.see("It was shown next to your API key.") // the next update finds the session ended
	if n := evaluate[int](p, `document.querySelectorAll("header").length`); n != 1 {
		t.Errorf("there are %d headers", n)
	}
	host.stop(t, syscall.SIGTERM)
}
