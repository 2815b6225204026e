package console

import (
	"fmt"
	"html/template"
	"slices"
	"strings"
	"time"

	"github.com/gofiber/fiber/v2"

	"assay/docs"
)

// holdsSecrets reports whether the response to a request can hold a secret, such as the token of a session's forms, a
// new key or a customer's data. Such responses are not compressed: their length would tell whether text that somebody
// else put into them occurs in the secret (BREACH).
func holdsSecrets(ctx *fiber.Ctx) bool {
	if ctx.Method() != fiber.MethodGet {
		return true
	}
	path := ctx.Path()
	if strings.HasPrefix(path, "/static/") {
		return false
	}
	public := path == "/" || path == "/docs" || strings.HasPrefix(path, "/docs/")
	return !public || len(ctx.Request().Header.Peek(fiber.HeaderCookie)) > 0
}

// favicon serves the icon to browsers that do not use the link in a page.
func favicon(ctx *fiber.Ctx) error {
	icon, err := static.ReadFile("static/icon.svg")
	if err != nil {
		return fmt.Errorf("reading the icon: %w", err)
	}
	ctx.Set(fiber.HeaderContentType, "image/svg+xml")
	ctx.Set(fiber.HeaderCacheControl, "public, max-age=86400")
	return ctx.Send(icon)
}

// contactLife is how long security.txt says it stays up to date. It must be less than a year (RFC 9116 section 2.5.5).
// The text is created for each request.
const contactLife = 180 * 24 * time.Hour

// securityText says where to report vulnerabilities (RFC 9116).
func (c *Console) securityText(ctx *fiber.Ctx) error {
	if len(c.cfg.SecurityContact) == 0 {
		return fiber.ErrNotFound
	}
	var text strings.Builder
	for _, uri := range c.cfg.SecurityContact {
		fmt.Fprintf(&text, "Contact: %s\n", uri)
	}
	expires := c.cfg.Now().UTC().Add(contactLife).Truncate(24 * time.Hour)
	fmt.Fprintf(&text, "Expires: %s\n", expires.Format(time.RFC3339))
	if strings.HasPrefix(c.cfg.URL, "https://") {
		fmt.Fprintf(&text, "Canonical: %s\n", c.cfg.URL+ctx.Path())
	}
	ctx.Set(fiber.HeaderContentType, fiber.MIMETextPlainCharsetUTF8)
	return ctx.SendString(text.String())
}

// guideGroup is a heading in the list of the documentation's pages, with the pages below it.
type guideGroup struct {
	Title string
	Pages []docs.Page
}

// guide shows a page of the documentation.
func (c *Console) guide(ctx *fiber.Ctx) error {
	i := slices.IndexFunc(c.documents, func(p docs.Page) bool { return p.URL() == ctx.Path() })
	if i < 0 {
		return fiber.ErrNotFound
	}
	page := c.documents[i]
	host := template.HTMLEscapeString(c.url(ctx, ""))
	page.HTML = template.HTML(strings.ReplaceAll(string(page.HTML), docs.Host, host)) //nolint:gosec // escaped
	v := view{"Title": page.Title, "Document": page, "Groups": groupPages(c.documents, i)}
	if i > 0 {
		v["Before"] = c.documents[i-1]
	}
	if i+1 < len(c.documents) {
		v["After"] = c.documents[i+1]
	}
	return c.renderFor(ctx, "docs", v)
}

// groupPages returns the list of pages to show on the page with index current. Parts are listed only on the page that
// they belong to and on its other parts.
func groupPages(pages []docs.Page, current int) (groups []guideGroup) {
	whole := func(i int) int {
		for pages[i].Part {
			i--
		}
		return i
	}
	for i, p := range pages {
		if p.Part && whole(i) != whole(current) {
			continue
		}
		if len(groups) == 0 || groups[len(groups)-1].Title != p.Group {
			groups = append(groups, guideGroup{Title: p.Group})
		}
		last := &groups[len(groups)-1]
		last.Pages = append(last.Pages, p)
	}
	return groups
}
