package docs

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"

	"assay"

	"assay/registry/expect"
)

// TestPages checks that each page has a title, and that links between pages, and to headings, lead somewhere.
func TestPages(t *testing.T) {
	t.Parallel()
	pages := expect.Value(Pages())(t)
	ids := map[string][]string{"/openapi.json": nil} // by URL
	attribute := regexp.MustCompile(` id="([^"]*)"`)
	for _, p := range pages {
		ids[p.URL()] = nil
		for _, id := range attribute.FindAllStringSubmatch(string(p.HTML), -1) {
			expect.That(t, !slices.Contains(ids[p.URL()], id[1]), "%s: two elements have the id %s", p.URL(), id[1])
			ids[p.URL()] = append(ids[p.URL()], id[1])
		}
	}
	for _, p := range pages {
		expect.That(t, p.Title != "" && p.Group != "" && !strings.Contains(string(p.HTML), "<!--"),
			"%q: title %q, group %q, or a comment is shown", p.Name, p.Title, p.Group)
		for _, link := range regexp.MustCompile(`href="([^"#]*)#?([^"]*)"`).FindAllStringSubmatch(string(p.HTML), -1) {
			address, fragment := link[1], link[2]
			if strings.Contains(address, "://") {
				continue
			}
			if address == "" {
				address = p.URL()
			}
			found, ok := ids[address]
			expect.That(t, ok && (fragment == "" || slices.Contains(found, fragment)),
				"%s links to %s#%s, which does not exist", p.URL(), address, fragment)
		}
	}
}

// TestRender checks how parts of documents are shown.
func TestRender(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct{ text, want string }{
		"a link to a page": {"[errors](errors.md#7-errors)",
			`<p><a href="/docs/errors#7-errors">errors</a></p>` + "\n"},
		"a link to the first page": {"[start](quickstart.md)", `<p><a href="/docs">start</a></p>` + "\n"},
		"a link to a file that is no page": {"see [the **facts**](../../sdk/ABI.md#7).",
			"<p>see the <strong>facts</strong>.</p>\n"},
		"a link elsewhere":  {"[x](https://example.com/)", `<p><a href="https://example.com/">x</a></p>` + "\n"},
		"HTML and a script": {"<script>alert(1)</script>\n\n<!-- note -->", ""},
		"a heading":         {"## A `b`", "<h2 id=\"a-b\"><a href=\"#a-b\">A <code>b</code></a></h2>\n"},
		"a table with a pipe": {"|a|`b`|\n|-|-|\n|\"\\||2|", "<div class=\"wide\"><table class=\"sheet\">\n" +
			`<thead><tr><th scope="col">a</th><th scope="col"><code>b</code></th></tr></thead><tbody>` + "\n" +
			`<tr><td data-label="a">&quot;|</td><td data-label="b">2</td></tr>` + "\n</tbody></table></div>\n"},
		"code": {"```sh\na <b>\n```", `<figure class="snippet"><figcaption><span>curl</span> <button type="button" ` +
			`class="second" data-copy="code-1-sh" hidden>Copy</button></figcaption>` + "\n" +
			`<pre tabindex="0"><code id="code-1-sh">a &lt;b&gt;</code></pre></figure>` + "\n"},
	} {
		title, got, err := render("docs/guide", []byte("# Title\n\n"+test.text+"\n"))
		expect.That(t, err == nil && title == "Title" && string(got) == test.want, "%s: %q, %v\n%s\nwant\n%s", name,
			title, err, got, test.want)
	}
	for name, text := range map[string]string{
		"no title": "text", "code without a language": "# T\n\n```\nx\n```",
	} {
		_, _, err := render("docs", []byte(text))
		expect.That(t, err != nil, "%s: no error", name)
	}
}

// TestSnippets checks which blocks of code are tabs of one snippet.
func TestSnippets(t *testing.T) {
	t.Parallel()
	var text strings.Builder
	for _, language := range []string{"sh", "go", "python", "json", "text", "sh", "sh", "go"} {
		fmt.Fprintf(&text, "```%s\nx\n```\n\n", language)
	}
	_, got, err := render("docs", []byte("# Title\n\n"+text.String()))
	expect.NoError(t, err)
	ids := regexp.MustCompile(`value="\w+"( checked)?>|<code id="[\w-]+">|</fieldset>`).FindAllString(string(got), -1)
	want := []string{`value="sh" checked>`, `value="go">`, `value="python">`, `<code id="code-1-sh">`,
		`<code id="code-1-go">`, `<code id="code-1-python">`, `</fieldset>`, `<code id="code-2-json">`,
		`<code id="code-3-text">`, `<code id="code-4-sh">`, `value="sh" checked>`, `value="go">`,
		`<code id="code-5-sh">`, `<code id="code-5-go">`, `</fieldset>`}
	expect.That(t, slices.Equal(ids, want), "got %q\nwant %q", ids, want)
}

// TestInclude checks which part of a document a page includes.
func TestInclude(t *testing.T) {
	t.Parallel()
	const file = "# T\n\n## A\n\none\n\n### B\n\ntwo\n\n### C\n\n## D\nthree\n"
	for heading, want := range map[string]string{
		"A": "one\n\n### B\n\ntwo\n\n### C", "B": "two", "C": "", "D": "three",
	} {
		got, ok := section(file, heading)
		expect.That(t, ok && got == want, "%s: %q, %v, want %q", heading, got, ok, want)
	}
	for _, text := range []string{"<!-- include contract.md: No such -->", "<!-- include none.md: 7. Errors -->"} {
		expect.Failure(t, expect.ErrorOf(include(text)), "%s: no error", text)
	}
}

// TestParts checks which pages are parts of another, and that each layer has a page, and its signals an anchor there.
func TestParts(t *testing.T) {
	t.Parallel()
	pages := expect.Value(Pages())(t)
	parts := 0
	signal := regexp.MustCompile(`(?m)^## (.+)$`)
	for _, p := range pages {
		expect.That(t, p.Part == strings.Contains(p.Name, "/"), "%s: part %t", p.Name, p.Part)
		if !strings.HasPrefix(p.Name, "catalogue/") {
			continue
		}
		parts++
		signals := signal.FindAllStringSubmatch(expect.Value(read("docs/"+p.Name+".md"))(t), -1)
		expect.That(t, len(signals) != 0, "%s has no signals", p.Name)
		for _, s := range signals {
			expect.That(t, strings.Contains(string(p.HTML), `<h2 id="`+s[1]+`">`), "%s: %s has no anchor", p.Name, s[1])
		}
	}
	layers := strings.Count(assay.Catalogue, "\n| [")
	expect.That(t, parts == layers && parts != 0, "%d pages of %d layers", parts, layers)
}
