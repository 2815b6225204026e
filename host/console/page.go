package console

import (
	"bytes"
	"crypto/sha256"
	"embed"
	"fmt"
	"html/template"
	"io/fs"
	"path"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/gofiber/fiber/v2"
)

//go:embed pages
var pageFiles embed.FS

// pages are the parsed templates: each is the layout with one page's blocks, or a part of a page by itself.
type pages struct {
	whole map[string]*template.Template
	parts *template.Template
}

// view is what a page shows.
type view map[string]any

// asset returns the address of a static file. It names the content, so that browsers may keep it and still never show a
// new page in an old style.
func asset(name string) (string, error) {
	content, err := static.ReadFile("static/" + name)
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256(content)
	return fmt.Sprintf("/static/%s?v=%x", name, sum[:6]), nil
}

func parsePages() (*pages, error) {
	funcs := template.FuncMap{
		"asset":  asset,
		"euros":  func(cents int64) string { return fmt.Sprintf("€%d", cents/100) },
		"time":   shownTime,
		"minute": func(t time.Time) string { return t.UTC().Format("2 Jan 2006, 15:04") + " UTC" },
		"date":   func(t time.Time) string { return t.UTC().Format("2 January 2006") },
		"day":    func(t time.Time) string { return t.UTC().Format("2 Jan 2006") },
		"moment": moment,
		"count":  count,
		"named": func(plan string) string {
			return strings.ToUpper(plan[:min(1, len(plan))]) + plan[min(1,
				len(plan)):]
		},
		"isodate": func(t time.Time) string { return t.UTC().Format(time.DateOnly) },
		"seen":    func(s string) string { return readable([]byte(s)) },
		"words":   func(s string) string { return strings.ReplaceAll(s, "_", " ") },
		"percent": func(part, whole int) int { return min(100, 100*part/max(1, whole)) },
		"plural": func(n int, word string) string {
			switch {
			case n == 1:
				return word
			case strings.HasSuffix(word, "y"):
				return strings.TrimSuffix(word, "y") + "ies"
			}
			return word + "s"
		},
		"dict": func(pairs ...any) map[string]any {
			m := map[string]any{}
			for i := 0; i+1 < len(pairs); i += 2 {
				m[fmt.Sprint(pairs[i])] = pairs[i+1]
			}
			return m
		},
	}
	p := &pages{whole: map[string]*template.Template{}}
	base, err := template.New("").Funcs(funcs).ParseFS(pageFiles, "pages/layout.html", "pages/parts.html")
	if err != nil {
		return nil, err
	}
	p.parts = base
	files, err := fs.Glob(pageFiles, "pages/*.html")
	if err != nil {
		return nil, err
	}
	for _, file := range files {
		name := strings.TrimSuffix(path.Base(file), ".html")
		if name == "layout" || name == "parts" {
			continue
		}
		own, err := template.Must(base.Clone()).ParseFS(pageFiles, file)
		if err != nil {
			return nil, err
		}
		p.whole[name] = own
	}
	return p, nil
}

func shownTime(t time.Time) string { return t.UTC().Format("2 Jan 2006, 15:04:05") + " UTC" }

// moment is a timestamp, as answers give it, for people to read.
func moment(timestamp string) string {
	t, err := time.Parse(time.RFC3339, timestamp)
	if err != nil {
		return timestamp
	}
	return shownTime(t)
}

// count is a number, with its thousands apart from five digits on.
func count(n int) string {
	digits := strconv.Itoa(n)
	if n < 10_000 {
		return digits
	}
	for i := len(digits) - 3; i > 0; i -= 3 {
		digits = digits[:i] + "," + digits[i:]
	}
	return digits
}

// render answers with a page. It is written out whole first: half a page is none.
func (c *Console) render(ctx *fiber.Ctx, name string, s *session, v view) error {
	t, ok := c.pages.whole[name]
	if !ok {
		return fmt.Errorf("rendering page: there is no %q", name)
	}
	return c.write(ctx, t, "layout", name, s, v)
}

// part answers with a part of a page, for a request that asked for no more.
func (c *Console) part(ctx *fiber.Ctx, name string, s *session, v view) error {
	return c.write(ctx, c.pages.parts, name, name, s, v)
}

func (c *Console) write(ctx *fiber.Ctx, t *template.Template, block, name string, s *session, v view) error {
	v["Page"], v["Session"], v["Path"] = name, s, ctx.Path()
	v["TestMode"] = c.cfg.Billing.Provider.Test()
	var page bytes.Buffer
	if err := t.ExecuteTemplate(&page, block, v); err != nil {
		return fmt.Errorf("rendering page %s: %w", name, err)
	}
	ctx.Set(fiber.HeaderContentType, fiber.MIMETextHTMLCharsetUTF8)
	return ctx.Send(page.Bytes())
}

// partial says whether the request comes from htmx and wants only the part of the page with that id. htmx names what it
// will replace as "div#id".
func partial(ctx *fiber.Ctx, id string) bool {
	return ctx.Get("HX-Request") == "true" && strings.HasSuffix(ctx.Get("HX-Target"), "#"+id)
}

// field is what a form says in the request's body; what stands in the URL does not count, where secrets and tokens have
// no business. Forms of several parts are not read: no page sends one.
func field(ctx *fiber.Ctx, name string) string { return readable(ctx.Request().PostArgs().Peek(name)) }

// query is a value of the URL.
func query(ctx *fiber.Ctx, name string) string {
	return readable(ctx.Request().URI().QueryArgs().Peek(name))
}

// readable is text as the database and a page can hold it: what is neither UTF-8 nor seen nor space becomes U+FFFD,
// which no check, name or address may have.
func readable(raw []byte) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsControl(r) && !unicode.IsSpace(r) {
			return unicode.ReplacementChar
		}
		return r
	}, strings.ToValidUTF8(string(raw), string(unicode.ReplacementChar)))
}
