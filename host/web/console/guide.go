package console

import (
	"html/template"
	"slices"
	"strings"

	"github.com/gofiber/fiber/v2"

	"assay/docs"
)

// guideGroup is a heading in the list of the documentation's pages, with the pages below it.
type guideGroup struct {
	Title string
	Pages []docs.Page
}

// guide shows a page of the documentation.
func (c *Console) guide(ctx *fiber.Ctx) error {
	s, err := c.current(ctx)
	if err != nil {
		return err
	}
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
	return c.render(ctx, "docs", s, v)
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
