package docs

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"assay/registry/expect"
)

// apiDocument is what the pages of the API are made from: host/web/api/openapi.json.
type apiDocument struct {
	Paths, Webhooks map[string]map[string]operation
	Components      struct {
		Schemas    map[string]schema
		Responses  map[string]response
		Parameters map[string]parameter
	}
}

type operation struct {
	ID                   string `json:"operationId"`
	Summary, Description string
	Security             []map[string][]string
	Parameters           []parameter
	RequestBody          struct{ Content map[string]content }
	Responses            map[string]response

	method, path string
}

type parameter struct {
	Ref                   string `json:"$ref"`
	Name, In, Description string
	Required              bool
	Schema                schema
}

type response struct {
	Ref         string `json:"$ref"`
	Description string
	Content     map[string]content
}

type content struct {
	Schema   schema
	Example  json.RawMessage
	Examples map[string]struct{ Value json.RawMessage }
}

type schema struct {
	Ref         string `json:"$ref"`
	Type        any
	Description string
	Properties  json.RawMessage // an object, whose order is that of the table
	Required    []string
	Enum        []any
	Const       any
	Items       *schema
	AnyOf       []schema

	orNull bool
}

// example returns the first example, indented, or "".
func (c content) example() string {
	text := c.Example
	for _, name := range slices.Sorted(maps.Keys(c.Examples)) {
		if text == nil {
			text = c.Examples[name].Value
		}
	}
	var out bytes.Buffer
	if json.Indent(&out, text, "", "  ") != nil {
		return ""
	}
	return out.String()
}

// operations returns the document's requests that customers make or receive, in the order of their paths.
func (d *apiDocument) operations() (all []operation) {
	for _, paths := range []map[string]map[string]operation{d.Paths, d.Webhooks} {
		for _, path := range slices.Sorted(maps.Keys(paths)) {
			for _, method := range []string{"get", "post", "delete"} {
				o, ok := paths[path][method]
				if _, customers := calls[o.ID]; ok && (customers || len(o.Security) > 0) {
					o.method, o.path = strings.ToUpper(method), path
					all = append(all, o)
				}
			}
		}
	}
	return all
}

// page returns the name of an operation's page.
func (o operation) page() string {
	return strings.ToLower(regexp.MustCompile(`[A-Z]`).ReplaceAllString(o.ID, "-$0"))
}

// call returns what an operation calls, in a sentence or a table.
func (o operation) call() string {
	if strings.HasPrefix(o.path, "/") {
		return "`" + o.method + " " + o.path + "`"
	}
	return "`POST` to your URL"
}

// TestAPI compares the pages of the API with its OpenAPI document. ASSAY_UPDATE=1 writes them.
func TestAPI(t *testing.T) {
	t.Parallel()
	var d apiDocument
	expect.NoError(t, json.Unmarshal(expect.Value(os.ReadFile("../host/web/api/openapi.json"))(t), &d))
	want := map[string]string{}
	var index strings.Builder
	index.WriteString("# API\n\nAll requests and answers are JSON. The " +
		"[OpenAPI document](../host/web/api/openapi.json) has the exact schemas.\n\n" +
		"| request | purpose | key |\n|---|---|---|\n")
	common := d.common()
	for _, o := range d.operations() {
		_, ok := calls[o.ID]
		expect.That(t, ok, "%s has no programs: add them to calls", o.ID)
		want["api/"+o.page()+".md"] = d.render(o, common)
		fmt.Fprintf(&index, "| [%s](api/%s.md) | %s | %s |\n", o.call(), o.page(), o.Summary, cmp.Or(o.scope(), "none"))
	}
	want["api.md"] = index.String()
	var got []string
	for _, pattern := range []string{"api.md", "api/*.md"} {
		got = append(got, expect.Value(filepath.Glob(pattern))(t)...)
	}
	for _, file := range got {
		expect.That(t, want[file] != "", "%s describes no endpoint that the document has: remove it", file)
	}
	for file, text := range want {
		if os.Getenv("ASSAY_UPDATE") != "" {
			expect.NoError(t, os.MkdirAll("api", 0o755))
			expect.NoError(t, os.WriteFile(file, []byte(text), 0o644))
		}
		if have, _ := os.ReadFile(file); string(have) != text {
			t.Errorf("%s differs from the OpenAPI document: ASSAY_UPDATE=1 go test ./docs -run %s", file, t.Name())
		}
	}
}

// scope returns the scope of the key that an operation needs, or "".
func (o operation) scope() string {
	for _, s := range o.Security {
		return "`" + strings.Join(s["key"], "`, `") + "`"
	}
	return ""
}

// common returns the references of the responses that most operations have.
func (d *apiDocument) common() (all []string) {
	counts, operations := map[string]int{}, d.operations()
	for _, o := range operations {
		for _, r := range o.Responses {
			counts[r.Ref]++
		}
	}
	for ref, n := range counts {
		if ref != "" && n > len(operations)/3 && !strings.HasSuffix(ref, "/Invalid") {
			all = append(all, ref)
		}
	}
	return all
}

// render returns the page of an operation.
func (d *apiDocument) render(o operation, common []string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "# %s\n\n%s", o.Summary, o.call())
	if scope := o.scope(); scope != "" {
		fmt.Fprintf(&b, ", with a key that has the scope %s", scope)
	}
	b.WriteString(".\n\n")
	if o.Description != "" {
		b.WriteString(wrapped(o.Description) + "\n\n")
	}
	asked, body := o.RequestBody.Content["application/json"]
	b.WriteString(o.snippets(asked.example()))
	if body || len(o.Parameters) > 0 {
		b.WriteString("## Request\n\n| field | type | required | meaning |\n|---|---|---|---|\n")
		for _, p := range o.Parameters {
			if p.Ref != "" {
				p = d.Components.Parameters[last(p.Ref)]
			}
			d.row(&b, p.Name, p.In+", ", p.Schema, p.Required, p.Description, true)
		}
		d.rows(&b, "", asked.Schema, true, map[string]string{})
		b.WriteString("\n")
	}
	var specific, others []string
	for _, status := range slices.Sorted(maps.Keys(o.Responses)) {
		r := o.Responses[status]
		general := slices.Contains(common, r.Ref)
		if r.Ref != "" {
			r = d.Components.Responses[last(r.Ref)]
		}
		switch {
		case strings.HasPrefix(status, "2"):
			d.success(&b, status, r)
		case general:
			others = append(others, status)
		default:
			specific = append(specific, fmt.Sprintf("| %s | %s | %s |\n", status, r.codes(), oneLine(r.Description)))
		}
	}
	if o.path[0] == '/' {
		b.WriteString("## Errors\n\n")
		if specific != nil {
			b.WriteString("| status | code | when |\n|---|---|---|\n" + strings.Join(specific, "") + "\n")
		}
		fmt.Fprintf(&b, "[Errors](../guide/errors.md) explains %s.\n", strings.Join(others, ", "))
	}
	return strings.TrimSpace(b.String()) + "\n"
}

// success writes a successful response.
func (d *apiDocument) success(b *strings.Builder, status string, r response) {
	fmt.Fprintf(b, "## Response %s\n\n%s\n\n", status, wrapped(r.Description))
	answer, ok := r.Content["application/json"]
	if !ok {
		return
	}
	b.WriteString("| field | type | meaning |\n|---|---|---|\n")
	d.rows(b, "", answer.Schema, false, map[string]string{"Receipt": "[its page](show-receipt.md)"})
	fmt.Fprintf(b, "\n```json\n%s\n```\n\n", answer.example())
}

// codes returns the codes in the examples of an error.
func (r response) codes() string {
	answer := r.Content["application/json"]
	text := string(answer.Example)
	for _, e := range answer.Examples {
		text += string(e.Value)
	}
	var all []string
	for _, code := range regexp.MustCompile(`"code":\s*"(\w+)"`).FindAllStringSubmatch(text, -1) {
		all = append(all, "`"+code[1]+"`")
	}
	slices.Sort(all)
	return strings.Join(slices.Compact(all), ", ")
}

// rows writes the members of an object, and of objects in it, unless shown says where those of a schema are.
func (d *apiDocument) rows(b *strings.Builder, prefix string, s schema, request bool, shown map[string]string) {
	s = d.resolve(s)
	members := json.NewDecoder(bytes.NewReader(s.Properties))
	if token, _ := members.Token(); token == nil {
		return
	}
	for members.More() {
		token, _ := members.Token()
		name := fmt.Sprint(token)
		var member schema
		if members.Decode(&member) != nil {
			return
		}
		inner := d.resolve(member)
		description := cmp.Or(member.Description, inner.Description)
		place := shown[inner.Ref]
		if place != "" && inner.Properties != nil {
			description = strings.TrimSpace(description + " Its members are those of " + place + ".")
		}
		d.row(b, prefix+name, "", member, slices.Contains(s.Required, name), description, request)
		if place != "" {
			continue
		}
		if inner.Ref != "" {
			shown[inner.Ref] = "`" + prefix + name + "`"
		}
		if inner.Items != nil {
			d.rows(b, prefix+name+"[].", *inner.Items, request, shown)
		}
		d.rows(b, prefix+name+".", inner, request, shown)
	}
}

func (d *apiDocument) row(b *strings.Builder, name, where string, s schema, required bool, text string, request bool) {
	s = d.resolve(s)
	kind := where + d.kind(s)
	if s.orNull {
		kind += " or null"
	}
	var values []string
	for _, v := range s.Enum {
		values = append(values, fmt.Sprintf("`%v`", v))
	}
	if len(values) > 0 {
		text = strings.TrimSpace("One of " + strings.Join(values, ", ") + ". " + text)
	}
	if request {
		needed := map[bool]string{true: "yes", false: "no"}[required]
		fmt.Fprintf(b, "| `%s` | %s | %s | %s |\n", name, kind, needed, oneLine(text))
		return
	}
	fmt.Fprintf(b, "| `%s` | %s | %s |\n", name, kind, oneLine(text))
}

// resolve follows references, and drops the alternative null.
func (d *apiDocument) resolve(s schema) schema {
	description, orNull, ref := s.Description, len(s.AnyOf) > 0, ""
	for _, one := range s.AnyOf {
		if one.Type != "null" {
			s = one
		}
	}
	for strings.Contains(s.Ref, "/") {
		description, ref = cmp.Or(description, s.Description), last(s.Ref)
		s = d.Components.Schemas[ref]
	}
	s.Description, s.Ref, s.orNull = cmp.Or(description, s.Description), cmp.Or(ref, s.Ref), s.orNull || orNull
	return s
}

// kind returns the type of a value in words.
func (d *apiDocument) kind(s schema) string {
	switch types := s.Type.(type) {
	case string:
		if s.Items != nil {
			return "array of " + strings.TrimSuffix(d.kind(d.resolve(*s.Items)), "s") + "s"
		}
		return types
	case []any:
		return strings.ReplaceAll(strings.Trim(fmt.Sprint(types), "[]"), " ", " or ")
	}
	if s.Const == true {
		return "true"
	}
	return "string"
}

func last(ref string) string { return ref[strings.LastIndex(ref, "/")+1:] }

// wrapped returns a paragraph in lines of at most 120 bytes.
func wrapped(text string) string {
	var b strings.Builder
	length := 0
	for i, word := range strings.Fields(text) {
		if length += len(word) + 1; i > 0 && length > 120 {
			b.WriteString("\n")
			length = len(word) + 1
		} else if i > 0 {
			b.WriteString(" ")
		}
		b.WriteString(word)
	}
	return b.String()
}

// oneLine returns a text for a cell of a table. References to other parts of the document mean nothing there.
func oneLine(text string) string {
	text = regexp.MustCompile(` \(see `+"`\\w+`"+`\)`).ReplaceAllString(text, "")
	return strings.ReplaceAll(strings.Join(strings.Fields(text), " "), "|", `\|`)
}
