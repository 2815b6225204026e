package console

import (
	"bytes"
	"crypto/sha256"
	"embed"
	"fmt"
	"html/template"
	"io/fs"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/gofiber/fiber/v2"

	"assay/host/check"
	"assay/host/internal/plot"
)

//go:embed pages
var pageFiles embed.FS

// view is the data of a page's template.
type view map[string]any

// notes are the messages that a page can show after an action, by the name in the page's URL. Text from a URL is never
// shown.
var notes = map[string]string{
	"changed":   "The change is made. Your keys stay the same.",
	"cancelled": "Your subscription is cancelled. Everything works until the end of the paid period.",
}

// euros formats an amount in cents.
func euros(cents int64) string {
	if cents%100 == 0 {
		return fmt.Sprintf("€%d", cents/100)
	}
	return fmt.Sprintf("€%d.%02d", cents/100, cents%100)
}

// asset returns the URL of a static file. It contains a hash of the content, so that browsers can cache the file and
// still never combine a new page with an old style sheet.
func asset(name string) (string, error) {
	content, err := static.ReadFile("static/" + name)
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256(content)
	return fmt.Sprintf("/static/%s?v=%x", name, sum[:6]), nil
}

// cacheNamed lets browsers keep a static file for a year if the URL has the hash of its content. While hosts are
// updated, a page of one can name a file that another one does not have yet.
func cacheNamed(ctx *fiber.Ctx) error {
	err := ctx.Next()
	cache := "no-store"
	named, unknown := asset(strings.TrimPrefix(ctx.Path(), "/static/"))
	if unknown == nil && named == ctx.OriginalURL() {
		cache = "public, max-age=31536000, immutable"
	}
	ctx.Set(fiber.HeaderCacheControl, cache)
	return err
}

// capitalize returns a text with its first letter in upper case.
func capitalize(s string) string { return strings.ToUpper(s[:min(1, len(s))]) + s[min(1, len(s)):] }

var templateFuncs = template.FuncMap{
	"asset": asset,
	"euros": euros, "bars": bars,
	"accepted": func(links []Link) []Link {
		return slices.DeleteFunc(slices.Clone(links), func(l Link) bool { return !l.Accepted })
	},
	"time":       formatTime,
	"minute":     func(t time.Time) string { return t.UTC().Format("2 Jan 2006, 15:04") + " UTC" },
	"date":       func(t time.Time) string { return t.UTC().Format("2 January 2006") },
	"day":        func(t time.Time) string { return t.UTC().Format("2 Jan 2006") },
	"isodate":    func(t time.Time) string { return t.UTC().Format(time.DateOnly) },
	"timestamp":  timestamp,
	"count":      count,
	"capitalize": capitalize,
	"printable":  func(s string) string { return printable([]byte(s)) },
	"words":      func(s string) string { return strings.ReplaceAll(s, "_", " ") },
	"percent":    func(part, whole int) int { return min(100, 100*part/max(1, whole)) },
	"plural":     plural,
	"verdicts":   func() []check.Verdict { return []check.Verdict{check.Allow, check.Review, check.Block} },
	"signed": func(points float64) string {
		return strings.ReplaceAll(fmt.Sprintf("%+.1f", points), "-", "−")
	},
	"aria": aria,
	"plansWithPrivacy": func() string {
		return plansWith(check.Plans(), func(p check.Plan) bool { return p.Privacy })
	},
	"plansWithWebhooks": plansWithWebhooks,
	"problem":           problem,
	"dict": func(pairs ...any) map[string]any {
		m := map[string]any{}
		for i := 0; i+1 < len(pairs); i += 2 {
			m[fmt.Sprint(pairs[i])] = pairs[i+1]
		}
		return m
	},
}

// aria returns the attributes that connect a form field to its error in wrong, if there is one, and otherwise to hints,
// which are ids. The browser focuses the first field with an error.
func aria(wrong map[string]string, field string, hints ...string) template.HTMLAttr {
	if wrong[field] != "" {
		hints = append([]string{field + "-error"}, hints...)
	}
	attributes := ""
	if len(hints) > 0 {
		attributes = ` aria-describedby="` + strings.Join(hints, " ") + `"`
	}
	if wrong[field] != "" {
		attributes += ` aria-invalid="true" autofocus`
	}
	return template.HTMLAttr(attributes) //nolint:gosec // ids are constants of the templates
}

// problem returns the error of a form field, to be shown below it.
func problem(wrong map[string]string, field string) template.HTML {
	if wrong[field] == "" {
		return ""
	}
	return template.HTML(`<p class="wrong" role="alert" id="` + field + `-error">` + //nolint:gosec // escaped
		template.HTMLEscapeString(wrong[field]) + `</p>`)
}

// rowsPerPage is the length of lists that are read whole and shown in pages.
const rowsPerPage = 25

// paged returns the part of a list that the request asks for, and sets the numbers of the pages around it.
func paged[T any](ctx *fiber.Ctx, v view, list []T) []T {
	pages := max(1, (len(list)+rowsPerPage-1)/rowsPerPage)
	asked, _ := strconv.Atoi(query(ctx, "page"))
	at := min(max(1, asked), pages)
	v["PageNumber"], v["PagesInAll"] = at, pages
	if at > 1 {
		v["PageBefore"] = at - 1
	}
	if at < pages {
		v["PageAfter"] = at + 1
	}
	return list[(at-1)*rowsPerPage : min(at*rowsPerPage, len(list))]
}

// parsePages returns the template of each page by its name.
func parsePages() (map[string]*template.Template, error) {
	base, err := template.New("").Funcs(templateFuncs).ParseFS(pageFiles, "pages/layout.html", "pages/parts.html")
	if err != nil {
		return nil, err
	}
	files, err := fs.Glob(pageFiles, "pages/*.html")
	if err != nil {
		return nil, err
	}
	pages := map[string]*template.Template{}
	for _, file := range files {
		name := strings.TrimSuffix(path.Base(file), ".html")
		if name == "layout" || name == "parts" {
			continue
		}
		if pages[name], err = template.Must(base.Clone()).ParseFS(pageFiles, file); err != nil {
			return nil, err
		}
	}
	return pages, nil
}

func formatTime(t time.Time) string { return t.UTC().Format("2 Jan 2006, 15:04:05") + " UTC" }

// timestamp formats a timestamp of the API for people. Other texts are returned as they are.
func timestamp(text string) string {
	t, err := time.Parse(time.RFC3339, text)
	if err != nil {
		return text
	}
	return formatTime(t)
}

// count formats a number with thousands separators.
func count(n int) string { return plot.Thousands(strconv.Itoa(n)) }

// plural returns the form of an English word for n things.
func plural(n int, word string) string {
	switch {
	case n == 1:
		return word
	case strings.HasSuffix(word, "y"):
		return strings.TrimSuffix(word, "y") + "ies"
	}
	return word + "s"
}

// renderFor is render for a page of the session that the request belongs to, if any.
func (c *Console) renderFor(ctx *fiber.Ctx, name string, v view) error {
	s, err := c.current(ctx)
	if err != nil {
		return err
	}
	return c.render(ctx, name, s, v)
}

// render sends a page. It renders the whole page first, so that an error never leaves half a page.
func (c *Console) render(ctx *fiber.Ctx, name string, s *session, v view) error {
	t, ok := c.pages[name]
	if !ok {
		return fmt.Errorf("rendering page: there is no %q", name)
	}
	v["Page"], v["Session"] = name, s
	if s != nil {
		ctx.Set(fiber.HeaderCacheControl, "no-store")
		once := c.takeShown(ctx, s)
		if v["Shown"] = once; once.Note != "" {
			v["Note"] = once.Note
		}
	}
	v["Mail"], v["Links"], v["Tax"] = c.cfg.Mail != nil, c.cfg.Links, c.cfg.Tax
	v["TestMode"], v["ForSale"] = c.cfg.Billing.Provider.Test(), c.cfg.Billing.Sells()
	v["Shared"] = ctx.Response().StatusCode() == fiber.StatusTooManyRequests && c.cfg.Shared != nil &&
		c.cfg.Shared(ctx.Context())
	var page bytes.Buffer
	if err := t.ExecuteTemplate(&page, "layout", v); err != nil {
		return fmt.Errorf("rendering page %s: %w", name, err)
	}
	ctx.Set(fiber.HeaderContentType, fiber.MIMETextHTMLCharsetUTF8)
	return ctx.Send(page.Bytes())
}

// field returns a form field from the request's body. The URL is ignored, because secrets and tokens must never be in
// one, and so are multipart bodies, which no page sends.
func field(ctx *fiber.Ctx, name string) string { return printable(ctx.Request().PostArgs().Peek(name)) }

// query returns a parameter of the URL.
func query(ctx *fiber.Ctx, name string) string {
	return printable(ctx.Request().URI().QueryArgs().Peek(name))
}

// printable returns text that the database and a page can hold. Invalid UTF-8 and control characters other than white
// space become U+FFFD, which is invalid in checked values, names and URLs.
func printable(raw []byte) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsControl(r) && !unicode.IsSpace(r) {
			return unicode.ReplacementChar
		}
		return r
	}, strings.ToValidUTF8(string(raw), string(unicode.ReplacementChar)))
}
