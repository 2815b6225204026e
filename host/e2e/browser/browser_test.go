package browser

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/chromedp"

	"assay/host/hosttest"
	"assay/registry/expect"
)

// person is a user of a browser.
type person struct {
	*testing.T
	tab  context.Context
	axe  string // the accessibility checker's source
	shot string // directory of screenshots, or "" for none
}

// remoteName is a name of this machine that browsers treat as any other host, unlike loopback addresses.
const remoteName = "assay.test"

// browse starts Chromium. ASSAY_SCREENSHOTS names a directory for screenshots.
func browse(t *testing.T) *person {
	t.Helper()
	chromium := expect.Program(t, "chromium", "chromium")
	axe, err := os.ReadFile(filepath.Join("..", "..", "web", "console", "node_modules", "axe-core", "axe.min.js"))
	if err != nil {
		t.Skip("the accessibility checker is not installed: npm ci --prefix host/web/console")
	}
	options := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath(chromium), chromedp.NoSandbox,
		chromedp.DisableGPU, chromedp.Flag("disable-quic", true), chromedp.Flag("disable-component-update", true),
		chromedp.UserDataDir(t.TempDir()), chromedp.Flag("host-resolver-rules", "MAP "+remoteName+" 127.0.0.1"))
	allocated, stop := chromedp.NewExecAllocator(context.WithoutCancel(t.Context()), options...)
	t.Cleanup(stop)
	tab, closeTab := chromedp.NewContext(allocated)
	t.Cleanup(closeTab)
	tab, cancel := context.WithTimeout(tab, 15*time.Minute) // includes building the layers
	t.Cleanup(cancel)
	p := &person{T: t, tab: tab, axe: string(axe), shot: os.Getenv("ASSAY_SCREENSHOTS")}
	p.do(chromedp.EmulateViewport(1100, 800))
	p.do(call(page.AddScriptToEvaluateOnNewDocument, page.AddScriptToEvaluateOnNewDocumentParams{Source: quickTimers}))
	return p
}

// quickTimers lets pages update themselves ten times as often.
const quickTimers = `{
	const wait = setTimeout;
	window.setTimeout = (f, ms, ...rest) => wait(f, ms / 10, ...rest);
}`

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

// evaluate returns the value of a script that is safe to repeat: errors occur when the page changes meanwhile.
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

// call is an action that makes one call of the browser's protocol.
func call[P, R any](command cdp.Command[P, R], params P) chromedp.Action[chromedp.Void] {
	return chromedp.Func(func(ctx context.Context, t *chromedp.Target) error {
		return expect.ErrorOf(cdp.Call(ctx, t, command, params))
	})
}

// scheme sets the preferred color scheme: light or dark.
func scheme(name string) chromedp.Action[chromedp.Void] {
	return call(emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{
		Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: name}}})
}

func (p *person) until(what, condition string, options ...chromedp.EvaluateOption) {
	p.Helper()
	awaited(p, what, condition, func(holds bool) bool { return holds }, options...)
}

func (p *person) see(text string) *person {
	p.Helper()
	p.until(text, fmt.Sprintf("!!document.body && document.body.innerText.includes(%q)", text))
	return p
}

// press waits for the button or link with a label, clicks it once, and waits for a text on the following page. It
// ignores errors of the click itself, because the click may have worked.
func (p *person) press(label, then string) *person {
	p.Helper()
	find := fmt.Sprintf(
		`[...document.querySelectorAll("button, a, summary")].find((e) => e.innerText.trim() === %q)`, label)
	p.until(label, fmt.Sprintf(`document.readyState === "complete" && !!%s`, find))
	_, err := chromedp.Run(p.tab, chromedp.Evaluate[bool](fmt.Sprintf(`(() => { %s.click(); return true; })()`, find)))
	if err != nil {
		p.Logf("clicking %s: %v", label, err)
	}
	return p.see(then)
}

// write writes into fields: typed are their names, each followed by its text.
func (p *person) write(typed ...string) *person {
	p.Helper()
	for i := 0; i+1 < len(typed); i += 2 {
		p.until("field "+typed[i], fmt.Sprintf(`document.readyState === "complete" &&
			(document.getElementById(%q).value = %q, true)`, typed[i], typed[i+1]))
	}
	return p
}

// submit sends a form, and waits for a text on the following page.
func (p *person) submit(selector, then string) *person {
	p.Helper()
	p.do(chromedp.Submit(selector))
	return p.see(then)
}

func (p *person) read(id string) string {
	p.Helper()
	return strings.TrimSpace(evaluate[string](p, fmt.Sprintf("document.getElementById(%q).innerText", id)))
}

// look checks the page on a phone, a tablet and a large screen: its layout on each, its accessibility on the large one
// in dark, and what of that depends on size and colors on the phone in light. It also saves screenshots.
func (p *person) look(name string) {
	p.Helper()
	for _, screen := range []struct {
		width  int64
		mobile bool
		axe    string // the color scheme in which accessibility is checked; empty: none
		rules  string // that are checked
	}{
		{320, true, "light", `runOnly: ["color-contrast", "target-size"]`}, {768, true, "", ""},
		{1440, false, "dark", `rules: { "target-size": { enabled: true } }`},
	} {
		view := []chromedp.EmulateViewportOption{}
		if screen.mobile {
			view = append(view, chromedp.EmulateMobile, chromedp.EmulateTouch)
		}
		p.do(chromedp.EmulateViewport(screen.width, 844, view...))
		for _, colors := range []string{"light", "dark"} {
			if p.shot == "" && screen.axe != colors {
				continue // the layout is the same in both
			}
			p.do(scheme(colors))
			at := fmt.Sprintf("%s-%d-%s", name, screen.width, colors)
			p.capture(at)
			if screen.axe != colors {
				continue
			}
			if !evaluate[bool](p, "!!window.axe") {
				evaluate[bool](p, p.axe+"; true")
			}
			found := evaluate[[]violation](p, "axe.run({ resultTypes: ['violations'], "+screen.rules+
				" }).then((r) => r.violations)", chromedp.EvalAwaitPromise)
			for _, v := range found {
				p.Errorf("%s: %s (%s): %v", at, v.Help, v.ID, v.Nodes)
			}
		}
		for _, flaw := range evaluate[[]string](p, layoutFlaws) {
			p.Errorf("%s at %d pixels: %s", name, screen.width, flaw)
		}
	}
	p.do(scheme("light"))
	p.do(chromedp.EmulateViewport(1100, 800))
}

// layoutFlaws lists what does not fit on the screen: content beside it, controls that are cut off, labels on two lines,
// buttons that touch what is before them, and texts in charts that are too small to read.
const layoutFlaws = `(() => {
	const flaws = [], root = document.documentElement, excess = root.scrollWidth - root.clientWidth;
	const name = (e) => e.tagName.toLowerCase() + " " + (e.innerText || e.id || e.className).trim().slice(0, 40);
	if (excess > 0) flaws.push("content is wider than the screen by " + excess);
	const shown = (e) => e.checkVisibility() && !e.closest(".hidden, .skip") && e.getBoundingClientRect().width > 1;
	for (const e of document.querySelectorAll(".wide, .card, section, .row, td")) {
		if (shown(e) && e.scrollWidth > e.clientWidth + 1) flaws.push(name(e) + " is wider than its place");
	}
	const pen = document.createElement("canvas").getContext("2d");
	const labels = "button, .button, .state, .verdict, .top nav a";
	for (const e of document.querySelectorAll(labels + ", select, input, textarea")) {
		if (!shown(e)) continue;
		const at = e.getBoundingClientRect(), style = getComputedStyle(e);
		if (at.left < 0 || at.right > root.clientWidth + 1) flaws.push(name(e) + " is cut off");
		if (e.matches(labels)) {
			const text = document.createRange();
			text.selectNodeContents(e);
			const parts = [...text.getClientRects()].filter((r) => r.width > 1);
			const lines = new Set(parts.map((r) => Math.round(r.top / 8)));
			if (lines.size > 1) flaws.push(name(e) + " has its label on " + lines.size + " lines");
		}
		if (e.matches("select")) {
			pen.font = style.font;
			const room = e.clientWidth - parseFloat(style.paddingLeft) - parseFloat(style.paddingRight) - 16;
			const text = e.selectedOptions[0]?.label ?? "";
			if (pen.measureText(text).width > room + 2) flaws.push("select " + e.id + " cuts off " + text);
		}
	}
	const parts = [...document.querySelectorAll(
		"a, button, input, select, textarea, summary, time, code, label, tbody tr")]
		.filter((e) => shown(e) && !e.closest("svg, p, li, pre"));
	const clash = (p, q) => Math.min(p.right, q.right) - Math.max(p.left, q.left) > 1 &&
		Math.min(p.bottom, q.bottom) - Math.max(p.top, q.top) > -2;
	for (const [i, a] of parts.entries()) for (const b of parts.slice(i + 1)) {
		if (a.contains(b) || b.contains(a) || a.matches("tr") && b.matches("tr") || !b.matches("button")) continue;
		if ([...a.getClientRects()].some((p) => [...b.getClientRects()].some((q) => clash(p, q))))
			flaws.push(name(b) + " touches " + name(a));
	}
	for (const e of document.querySelectorAll("svg text")) {
		const size = parseFloat(getComputedStyle(e).fontSize) * (e.getScreenCTM()?.a ?? 1);
		if (shown(e) && size < 10.5) flaws.push("the label " + e.textContent + " has " + size.toFixed(1) + " px");
	}
	return [...new Set(flaws)];
})()`

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
	expect.NoError(p, os.WriteFile(filepath.Join(p.shot, name+".png"), picture, 0o644))
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

// keyboard signs a new customer in and uses the dashboard without a mouse. The focus must survive updates of the page.
func (p *person) keyboard(host *hosttest.HostProcess, dir, database string) {
	owner := hosttest.OutputJSON[struct {
		Account string
		Code    string `json:"sign_in_code"`
	}](p.T, dir, database, "keys", "create", "--plan=pro")
	p.do(chromedp.Navigate(strings.Replace(host.URL, "127.0.0.1", remoteName, 1) + "/signin"))
	p.see("It was shown next to your API key.")
	at := p.moveFocus("\t")
	expect.That(p, at.Name == "Skip to content" && at.Seen && at.Outline, "the first focus is %+v", at)
	p.do(chromedp.KeyEvent("\r"))
	if at := p.moveFocus("\t"); at.Name != "Sign-in code" || !at.Seen || !at.Outline {
		p.Errorf("the focus after skipping to the content is %+v", at)
	}
	p.do(chromedp.KeyEvent(owner.Code + "\r"))
	p.see("This month")
	p.until("the whole page", `document.readyState === "complete" && !!document.querySelector(".steps")`)
	for _, want := range []string{
		"Skip to content", "Assay", "Overview", "Checks", "Usage", "Keys", "Webhooks", "Overrides", "Privacy", "Plan",
		"Account", "Docs", "Sign out",
		"Make the first check", "Receive webhooks", "Go live",
		"By day, key and type", "Change plan", "Value", "Type", "Country", "Check",
	} {
		at := p.moveFocus("\t")
		expect.That(p, at.Name == want && at.Outline && at.Seen, "the next focus is %+v, want %s", at, want)
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
	expect.That(p, evaluate[bool](p,
		`document.activeElement.id.startsWith("see-") && document.querySelectorAll("header").length === 1`),
		"an update moved the focus, or inserted a page into the page")
	evaluate[bool](p, `(window.workingFetch ??= window.fetch,
		window.fetch = () => Promise.reject(new TypeError("no connection")), true)`)
	p.see("This list is out of date")
	evaluate[bool](p, `(window.fetch = window.workingFetch, true)`)
	p.until("the list brought up to date",
		`!document.body.innerText.includes("This list is out of date") && !!document.querySelector("[id^=see-]")`)
	hosttest.Output(p.T, dir, database, "accounts", "sign-out", owner.Account)
	p.see("It was shown next to your API key.") // the next update finds the session ended
	n := evaluate[int](p, `document.querySelectorAll("header").length`)
	expect.That(p, n == 1, "there are %d headers", n)
}
