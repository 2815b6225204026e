package operator

import (
	"bytes"
	"crypto/sha256"
	"embed"
	"fmt"
	"html/template"
	"io/fs"
	"math"
	"net/http"
	"path"
	"strconv"
	"strings"
	"time"

	"assay/host/internal/plot"
)

//go:embed pages
var pageFiles embed.FS

//go:embed static/operator.css
var ownStyle []byte

// view is the data of a page's template.
type view map[string]any

// file is a static file. Its URL contains a hash of its content, so that browsers can cache it.
type file struct {
	name, version string
	text          []byte
}

func readFiles(look fs.FS) (map[string]file, error) {
	files := map[string]file{}
	add := func(name string, text []byte) {
		sum := sha256.Sum256(text)
		files[Path+"/static/"+name] = file{name, fmt.Sprintf("%x", sum[:6]), text}
	}
	add("operator.css", ownStyle)
	for _, name := range []string{"console.css", "icon.svg"} {
		text, err := fs.ReadFile(look, name)
		if err != nil {
			return nil, err
		}
		add(name, text)
	}
	return files, nil
}

func (f file) serve(w http.ResponseWriter, r *http.Request) {
	if r.URL.Query().Get("v") == f.version {
		w.Header().Set("Cache-Control", "public, max-age=31536000, immutable")
	}
	http.ServeContent(w, r, f.name, time.Time{}, bytes.NewReader(f.text))
}

func parseTemplates(files map[string]file) (*template.Template, error) {
	return template.New("").Funcs(template.FuncMap{
		"asset": func(name string) (string, error) {
			p := path.Join(Path, "static", name)
			f, ok := files[p]
			if !ok {
				return "", fmt.Errorf("there is no file %s", name)
			}
			return p + "?v=" + f.version, nil
		},
		"time":    func(t time.Time) string { return t.UTC().Format("2 Jan 2006, 15:04:05") + " UTC" },
		"iso":     func(t time.Time) string { return t.UTC().Format(time.RFC3339) },
		"between": func(later, earlier time.Time) string { return lasting(later.Sub(earlier)) },
		"lasting": lasting,
		"count":   count,
		"fuel":    fuel,
		"plural":  plural,
		"weight":  func(w float64) string { return strconv.FormatFloat(w, 'g', 3, 64) },
		"ticks":   ticks,
		"types":   func() []string { return []string{"domain", "email", "phone", "iban"} },
		"dict": func(pairs ...any) map[string]any {
			m := map[string]any{}
			for i := 0; i+1 < len(pairs); i += 2 {
				m[fmt.Sprint(pairs[i])] = pairs[i+1]
			}
			return m
		},
	}).ParseFS(pageFiles, "pages/*.html")
}

// lasting formats a duration with one unit, or two where one is too coarse.
func lasting(d time.Duration) string {
	switch d = max(d, 0); {
	case d < time.Second:
		return fmt.Sprintf("%d ms", d.Milliseconds())
	case d < 2*time.Minute:
		return fmt.Sprintf("%d s", int(d.Seconds()))
	case d < 2*time.Hour:
		return fmt.Sprintf("%d min", int(d.Minutes()))
	case d < 48*time.Hour:
		return fmt.Sprintf("%d h", int(d.Hours()))
	}
	return fmt.Sprintf("%d days", int(d.Hours()/24))
}

// count formats a number of any integer type, with separators from five digits on.
func count(n any) string {
	digits := fmt.Sprint(n)
	if len(digits) < 5 {
		return digits
	}
	return plot.Thousands(digits)
}

// fuel formats units of fuel with two digits or more.
func fuel(n any) string {
	units, _ := strconv.ParseFloat(fmt.Sprint(n), 64) // of an int64 or a float64
	for _, scale := range []struct {
		size float64
		unit string
	}{{1e9, "G"}, {1e6, "M"}, {1e3, "k"}} {
		if scaled := units / scale.size; scaled >= 1 {
			decimals := 0
			if scaled < 10 && scaled != math.Trunc(scaled) {
				decimals = 1
			}
			return strconv.FormatFloat(scaled, 'f', decimals, 64) + scale.unit
		}
	}
	return strconv.FormatFloat(units, 'f', 0, 64)
}

// plural returns the form of an English word for n things.
func plural(n any, word string) string {
	if fmt.Sprint(n) == "1" {
		return word
	}
	return word + "s"
}

// fragment is a piece of a text.
type fragment struct {
	Text string
	Code bool
}

// ticks splits a text at its backticks.
func ticks(text string) []fragment {
	var all []fragment
	for i, piece := range strings.Split(text, "`") {
		if piece != "" {
			all = append(all, fragment{piece, i%2 == 1})
		}
	}
	return all
}
