package docs

import (
	"bytes"
	"errors"
	"fmt"
	"html/template"
	"path"
	"regexp"
	"slices"
	"strings"

	"github.com/yuin/goldmark"
	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/extension"
	tables "github.com/yuin/goldmark/extension/ast"
	"github.com/yuin/goldmark/parser"
	"github.com/yuin/goldmark/text"
)

// languages are the languages of snippets, in the order of their tabs. Code blocks that follow each other in this order
// form one snippet.
var languages = []struct{ Fence, Name string }{
	{"sh", "curl"}, {"go", "Go"}, {"ts", "TypeScript"}, {"python", "Python"},
}

// captions are the captions of other code blocks, by language.
var captions = map[string]string{"json": "Response", "text": "Output of the programs"}

// renderer writes a page as HTML. It leaves out HTML in the document.
type renderer struct {
	bytes.Buffer
	markdown goldmark.Markdown
	source   []byte
	snippets int
	err      error
}

// render returns a document's title and its HTML without the title. Links to files that are not pages become
// text; dir is the document's.
func render(dir string, source []byte) (title string, body template.HTML, err error) {
	r := &renderer{source: source, markdown: goldmark.New(goldmark.WithExtensions(extension.Table),
		goldmark.WithParserOptions(parser.WithAutoHeadingID()))}
	tree := r.markdown.Parser().Parse(text.NewReader(source))
	resolveLinks(dir, tree)
	var snippet []*ast.FencedCodeBlock
	for n := tree.FirstChild(); n != nil; n = n.NextSibling() {
		if !r.joins(snippet, n) {
			r.snippet(snippet)
			snippet = nil
		}
		switch n := n.(type) {
		case *ast.Heading:
			if n.Level == 1 {
				title = r.plain(n)
			} else {
				r.heading(n)
			}
		case *ast.FencedCodeBlock:
			snippet = append(snippet, n)
		case *tables.Table:
			r.table(n)
		case *ast.HTMLBlock:
		default:
			r.node(n)
		}
	}
	r.snippet(snippet)
	if title == "" {
		r.err = errors.Join(r.err, errors.New("the document has no title"))
	}
	return title, template.HTML(r.String()), r.err //nolint:gosec // rendered from the documents of this repository
}

// resolveLinks turns links to files of the repository into links to their pages, or into text if they have none.
func resolveLinks(dir string, tree ast.Node) {
	var links []*ast.Link
	_ = ast.Walk(tree, func(n ast.Node, entering bool) (ast.WalkStatus, error) {
		if link, ok := n.(*ast.Link); ok && entering {
			links = append(links, link)
		}
		return ast.WalkContinue, nil
	})
	for _, link := range links {
		file, fragment, _ := strings.Cut(string(link.Destination), "#")
		if file == "" || strings.Contains(file, "://") {
			continue
		}
		file = path.Join(dir, file)
		target := slices.IndexFunc(sources, func(s source) bool { return s.file == file })
		switch {
		case target >= 0:
			address := sources[target].URL()
			if fragment != "" {
				address += "#" + fragment
			}
			link.Destination = []byte(address)
		case file == "host/web/api/openapi.json":
			link.Destination = []byte("/openapi.json")
		default:
			parent := link.Parent()
			for n := link.FirstChild(); n != nil; n = link.FirstChild() {
				parent.InsertBefore(parent, link, n)
			}
			parent.RemoveChild(parent, link)
		}
	}
}

// node writes a node as goldmark does.
func (r *renderer) node(n ast.Node) {
	r.err = errors.Join(r.err, r.markdown.Renderer().Render(&r.Buffer, r.source, n))
}

func (r *renderer) children(n ast.Node) {
	for c := n.FirstChild(); c != nil; c = c.NextSibling() {
		r.node(c)
	}
}

// plain returns the text of a node without its markup.
func (r *renderer) plain(n ast.Node) string {
	var b strings.Builder
	_ = ast.Walk(n, func(n ast.Node, entering bool) (ast.WalkStatus, error) {
		if t, ok := n.(*ast.Text); ok && entering {
			b.Write(t.Segment.Value(r.source))
		}
		return ast.WalkContinue, nil
	})
	return b.String()
}

// signalCode matches the code of a signal.
var signalCode = regexp.MustCompile(`^[a-z0-9_-]+(:[a-z0-9_-]+){2}$`)

// heading writes a heading that links to itself. A signal's code is also the heading's ID, and may wrap after a colon.
func (r *renderer) heading(n *ast.Heading) {
	id, _ := n.AttributeString("id")
	code := r.plain(n)
	if signalCode.MatchString(code) {
		id = code
	}
	fmt.Fprintf(r, "<h%d id=\"%s\"><a href=\"#%s\">", n.Level, id, id)
	if id == code {
		r.WriteString(strings.ReplaceAll(code, ":", ":<wbr>"))
	} else {
		r.children(n)
	}
	fmt.Fprintf(r, "</a></h%d>\n", n.Level)
}

// table writes a table whose rows become cards on a phone, with a heading for each cell.
func (r *renderer) table(n *tables.Table) {
	var labels []string
	r.WriteString("<div class=\"wide\"><table class=\"sheet\">\n")
	for row := n.FirstChild(); row != nil; row = row.NextSibling() {
		_, isHead := row.(*tables.TableHeader)
		if isHead {
			r.WriteString("<thead>")
		}
		r.WriteString("<tr>")
		for cell := row.FirstChild(); cell != nil; cell = cell.NextSibling() {
			if isHead {
				labels = append(labels, r.plain(cell))
				r.WriteString(`<th scope="col">`)
				r.children(cell)
				r.WriteString("</th>")
				continue
			}
			label := labels[min(len(labels)-1, index(cell))]
			fmt.Fprintf(r, `<td data-label="%s">`, template.HTMLEscapeString(label))
			r.children(cell)
			r.WriteString("</td>")
		}
		r.WriteString("</tr>")
		if isHead {
			r.WriteString("</thead><tbody>")
		}
		r.WriteString("\n")
	}
	r.WriteString("</tbody></table></div>\n")
}

// index returns the number of a node's earlier siblings.
func index(n ast.Node) (i int) {
	for n = n.PreviousSibling(); n != nil; n = n.PreviousSibling() {
		i++
	}
	return i
}

// language returns the index of a block's language in languages, or -1 for other code.
func (r *renderer) language(n *ast.FencedCodeBlock) int {
	fence := string(n.Language(r.source))
	return slices.IndexFunc(languages, func(l struct{ Fence, Name string }) bool { return l.Fence == fence })
}

// joins reports whether a node continues a snippet in a later language.
func (r *renderer) joins(snippet []*ast.FencedCodeBlock, n ast.Node) bool {
	code, ok := n.(*ast.FencedCodeBlock)
	if !ok || len(snippet) == 0 {
		return false
	}
	last := r.language(snippet[len(snippet)-1])
	return last >= 0 && r.language(code) > last
}

// snippet writes code blocks, as tabs if there are several. The tabs are radio buttons, so that a style sheet can show
// the chosen one.
func (r *renderer) snippet(blocks []*ast.FencedCodeBlock) {
	if len(blocks) == 0 {
		return
	}
	r.snippets++
	tabs := len(blocks) > 1
	if tabs {
		r.WriteString("<fieldset class=\"snippet tabbed\"><legend class=\"hidden\">Language</legend>\n<div>")
		for i, block := range blocks {
			checked := ""
			if i == 0 {
				checked = " checked"
			}
			l := languages[r.language(block)]
			fmt.Fprintf(r, `<label><input type="radio" name="language-%d" value="%s"%s> %s</label>`,
				r.snippets, l.Fence, checked, l.Name)
		}
		r.WriteString("</div>\n")
	}
	for _, block := range blocks {
		r.code(block, tabs)
	}
	if tabs {
		r.WriteString("</fieldset>\n")
	}
}

func (r *renderer) code(n *ast.FencedCodeBlock, tab bool) {
	fence := string(n.Language(r.source))
	caption, class := captions[fence], `class="snippet"`
	if i := r.language(n); i >= 0 {
		caption = languages[i].Name
	}
	if tab {
		class = `data-language="` + fence + `"`
	}
	if caption == "" {
		r.err = errors.Join(r.err, fmt.Errorf("there is code in the unknown language %q", fence))
	}
	id := fmt.Sprintf("code-%d-%s", r.snippets, fence)
	text := strings.TrimSuffix(string(n.Lines().Value(r.source)), "\n")
	fmt.Fprintf(r, `<figure %s><figcaption><span>%s</span> <button type="button" class="second" data-copy="%s" hidden>`+
		"Copy</button></figcaption>\n<pre tabindex=\"0\"><code id=\"%s\">%s</code></pre></figure>\n",
		class, caption, id, id, template.HTMLEscapeString(text))
}
