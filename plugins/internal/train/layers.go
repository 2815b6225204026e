package train

import (
	"bytes"
	_ "embed"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"assay/host/entity"
	"assay/host/measure/eval"
	"assay/registry"
	"assay/registry/fault"
)

//go:embed layer_main.go.txt
var layerMain string

// Layers builds layers natively with different data files, and runs them on labelled rows.
type Layers struct {
	root   string // the module's folder, which contains the working directory
	values string // the rows' types and values, one row per line
}

// NewLayers returns the layers in the source for rows.
func NewLayers(rows []eval.Row) (*Layers, error) {
	root, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", "assay").Output()
	if err != nil {
		return nil, fmt.Errorf("finding the layers' source: %w", err)
	}
	var values strings.Builder
	for i := range rows {
		fmt.Fprintf(&values, "%s %s\n", rows[i].Type, rows[i].Value)
	}
	return &Layers{strings.TrimSpace(string(root)), values.String()}, nil
}

// Score returns a layer's score of each row, or nil for an invalid one. data has the contents of files of the layer to
// replace, by name.
func (l *Layers) Score(layer string, data map[string]string) (scores []*int, err error) {
	defer fault.WrapAll(&err, "running layer %s", layer)
	folder, err := os.MkdirTemp("", "assay-train-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(folder)
	source := filepath.Join(l.root, "plugins", layer)
	text, err := os.ReadFile(filepath.Join(source, "manifest.json"))
	if err != nil {
		return nil, err
	}
	manifest, err := registry.ParseManifest(text)
	if err != nil {
		return nil, err
	}
	files, replaced := map[string]string{"main.go": layerMain}, map[string]string{}
	maps.Copy(files, data)
	for name, text := range files {
		path := filepath.Join(folder, name)
		replaced[filepath.Join(source, name)] = path
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			return nil, err
		}
	}
	document, err := json.Marshal(map[string]any{"Replace": replaced})
	if err != nil {
		return nil, err
	}
	list, program := filepath.Join(folder, "overlay.json"), filepath.Join(folder, layer)
	if err := os.WriteFile(list, document, 0o600); err != nil {
		return nil, err
	}
	if _, err := l.Command("", "go", "build", "-overlay", list, "-o", program, "./plugins/"+layer); err != nil {
		return nil, err
	}
	output, err := l.Command(l.values, program)
	if err != nil {
		return nil, err
	}
	lowest, highest := manifest.Range()
	for lines := json.NewDecoder(bytes.NewReader(output)); lines.More(); {
		var points *int // null for an invalid value
		if err := lines.Decode(&points); err != nil {
			return nil, err
		}
		if points != nil {
			*points = min(max(*points, lowest), highest)
		}
		scores = append(scores, points)
	}
	if want := strings.Count(l.values, "\n"); len(scores) != want {
		return nil, fmt.Errorf("%d results for %d rows", len(scores), want)
	}
	return scores, nil
}

// Command runs a program in the module's folder and returns its output.
func (l *Layers) Command(input, name string, args ...string) ([]byte, error) {
	c := exec.Command(name, args...)
	var stderr bytes.Buffer
	c.Dir, c.Stdin, c.Stderr = l.root, strings.NewReader(input), &stderr
	out, err := c.Output()
	if err != nil {
		return nil, fmt.Errorf("%w: %s", err, bytes.TrimSpace(stderr.Bytes()))
	}
	return out, nil
}

// ScoredRow is a labelled row with the scores of layers that were trained without its fold, in the form that
// "assay eval" and "assay lineup fit" read.
type ScoredRow struct {
	Type     entity.Type    `json:"type"`
	Value    string         `json:"value"`
	Label    int            `json:"label"`
	Source   string         `json:"source"`
	Category string         `json:"category"`
	HeldOut  map[string]int `json:"held_out,omitempty"`
}

// WriteRows writes rows with their layers' held-out scores to a file. A row for which held returns nil gets none.
func WriteRows(path string, rows []eval.Row, held func(i int) map[string]int) error {
	var out bytes.Buffer
	lines := json.NewEncoder(&out)
	lines.SetEscapeHTML(false)
	for i, r := range rows {
		label := 0
		if r.Malicious {
			label = 1
		}
		if err := lines.Encode(ScoredRow{r.Type, r.Value, label, r.Source, r.Category, held(i)}); err != nil {
			return fmt.Errorf("writing rows: %w", err)
		}
	}
	return fault.Wrap(os.WriteFile(path, out.Bytes(), 0o644), "writing rows")
}
