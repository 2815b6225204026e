// Package docs holds the documents that the host itself shows, and renders the customers' documentation.
package docs

import (
	"embed"
	"fmt"
	"html/template"
	"path"
	"regexp"
	"slices"
	"strings"

	"assay"
)

//go:embed api guide catalogue api.md contract.md testing.md decisions/scoring.md
var files embed.FS

// Host is the address in the documentation's texts and snippets. The host that serves them puts its own in its place.
const Host = "https://assay.example"

// Page is a page of the customers' documentation.
type Page struct {
	Name  string // in its URL; empty for the first page
	Title string
	Group string // the heading above it in the list of pages
	Part  bool   // belongs to the last page before it that is not a part; only that page and its parts list it
	HTML  template.HTML

	TestValues bool // its snippets check test values, so that they run with a test key
}

// URL returns the path of the page on a host.
func (p Page) URL() string { return source{name: p.Name}.URL() }

// source is a page's file, as a path in the repository.
type source struct{ name, group, file string }

// URL returns the path of the page on a host.
func (s source) URL() string { return strings.TrimSuffix("/docs/"+s.name, "/") }

// part reports whether the page belongs to the one above it.
func (s source) part() bool { return strings.Contains(s.name, "/") }

// sources lists the pages in their order.
var sources = slices.Concat(guide, parts("api"), []source{{"catalogue", "Reference", "plugins/CATALOGUE.md"}},
	parts("catalogue"), []source{{"changelog", "Reference", "CHANGELOG.md"}})

// parts returns the pages in a folder: one for each endpoint of the API, and one for each layer of the catalogue.
func parts(folder string) (pages []source) {
	entries, err := files.ReadDir(folder)
	if err != nil {
		panic(err) // the folder is embedded
	}
	for _, e := range entries {
		name := folder + "/" + strings.TrimSuffix(e.Name(), ".md")
		pages = append(pages, source{name, "Reference", "docs/" + folder + "/" + e.Name()})
	}
	return pages
}

// guide lists the pages that come before those of endpoints.
var guide = []source{
	{"", "Start", "docs/guide/quickstart.md"},
	{"keys", "Start", "docs/guide/keys.md"},
	{"testing", "Start", "docs/testing.md"},
	{"signup", "Recipes", "docs/guide/signup.md"},
	{"payment", "Recipes", "docs/guide/payment.md"},
	{"checks", "Checks", "docs/guide/checks.md"},
	{"scores", "Checks", "docs/guide/scores.md"},
	{"errors", "Checks", "docs/guide/errors.md"},
	{"limits", "Checks", "docs/guide/limits.md"},
	{"idempotency", "Checks", "docs/guide/idempotency.md"},
	{"webhooks", "Checks", "docs/guide/webhooks.md"},
	{"feedback", "Afterwards", "docs/guide/feedback.md"},
	{"overrides", "Afterwards", "docs/guide/overrides.md"},
	{"search", "Afterwards", "docs/guide/search.md"},
	{"pages", "Afterwards", "docs/guide/pages.md"},
	{"usage", "Afterwards", "docs/guide/usage.md"},
	{"receipts", "Afterwards", "docs/guide/receipts.md"},
	{"privacy", "Data protection", "docs/guide/privacy.md"},
	{"contract", "Reference", "docs/contract.md"},
	{"api", "Reference", "docs/api.md"},
}

// ofTestValues are the names of the pages whose snippets check test values.
var ofTestValues = []string{"", "signup", "payment", "checks", "errors"}

// Pages renders the customers' documentation. It fails if a page has no title or includes a section that does not
// exist.
func Pages() ([]Page, error) {
	pages := make([]Page, len(sources))
	for i, s := range sources {
		text, err := read(s.file)
		if err != nil {
			return nil, err
		}
		if text, err = include(text); err != nil {
			return nil, fmt.Errorf("including in %s: %w", s.file, err)
		}
		title, html, err := render(path.Dir(s.file), []byte(text))
		if err != nil {
			return nil, fmt.Errorf("rendering %s: %w", s.file, err)
		}
		pages[i] = Page{Name: s.name, Title: title, Group: s.group, Part: s.part(), HTML: html,
			TestValues: slices.Contains(ofTestValues, s.name)}
	}
	return pages, nil
}

func read(file string) (string, error) {
	switch file {
	case "CHANGELOG.md":
		return assay.Changelog, nil
	case "plugins/CATALOGUE.md":
		return assay.Catalogue, nil
	}
	text, err := files.ReadFile(strings.TrimPrefix(file, "docs/"))
	return string(text), err
}

var inclusion = regexp.MustCompile(`(?m)^<!-- include (\S+): (.+) -->$`)

// include replaces each line <!-- include FILE: HEADING --> with the text below that heading of a file in docs.
func include(text string) (string, error) {
	var failed error
	text = inclusion.ReplaceAllStringFunc(text, func(line string) string {
		named := inclusion.FindStringSubmatch(line)
		file, err := read("docs/" + named[1])
		if err != nil {
			failed = err
		}
		body, ok := section(file, named[2])
		if !ok {
			failed = fmt.Errorf("%s has no section %q", named[1], named[2])
		}
		return body
	})
	return text, failed
}

// section returns the text between a heading and the next one of the same or a higher level.
func section(file, heading string) (body string, ok bool) {
	for _, marks := range []string{"##", "###"} {
		_, after, found := strings.Cut(file, "\n"+marks+" "+heading+"\n")
		if !found {
			continue
		}
		end := regexp.MustCompile(`(?m)^#{1,` + fmt.Sprint(len(marks)) + `} `).FindStringIndex(after)
		if end == nil {
			return strings.TrimSpace(after), true
		}
		return strings.TrimSpace(after[:end[0]]), true
	}
	return "", false
}
