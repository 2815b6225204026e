package main

import (
	"bytes"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

//go:embed layer_main.go.txt
var layerMain string

// runner builds layers natively with different data files, and runs them on the labelled addresses.
type runner struct {
	root   string // the module's folder, which contains the working directory
	folder string // for the builds; the caller removes it
	values string // the addresses, one per line
}

func newRunner(folder string, all []address) (*runner, error) {
	root, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", "assay").Output()
	if err != nil {
		return nil, fmt.Errorf("finding the layers' source: %w", err)
	}
	var values strings.Builder
	for i := range all {
		fmt.Fprintln(&values, all[i].value)
	}
	return &runner{strings.TrimSpace(string(root)), folder, values.String()}, nil
}

// run returns a layer's points for each address, or -1 for an invalid one. data has the contents of files of the layer
// to replace, by name.
func (r *runner) run(layer string, data map[string]string) ([]int, error) {
	source := filepath.Join(r.root, "plugins", layer)
	overlay := map[string]map[string]string{"Replace": {}}
	put := func(name, text string) error {
		path := filepath.Join(r.folder, layer+"-"+name)
		overlay["Replace"][filepath.Join(source, name)] = path
		return os.WriteFile(path, []byte(text), 0o600)
	}
	if err := put("main.go", layerMain); err != nil {
		return nil, fmt.Errorf("building layer %s: %w", layer, err)
	}
	for name, text := range data {
		if err := put(name, text); err != nil {
			return nil, fmt.Errorf("building layer %s: %w", layer, err)
		}
	}
	document, err := json.Marshal(overlay)
	if err != nil {
		return nil, fmt.Errorf("building layer %s: %w", layer, err)
	}
	list, program := filepath.Join(r.folder, layer+".json"), filepath.Join(r.folder, layer)
	if err := os.WriteFile(list, document, 0o600); err != nil {
		return nil, fmt.Errorf("building layer %s: %w", layer, err)
	}
	if _, err := r.command("", "go", "build", "-overlay", list, "-o", program, "./plugins/"+layer); err != nil {
		return nil, fmt.Errorf("building layer %s: %w", layer, err)
	}
	output, err := r.command(r.values, program)
	if err != nil {
		return nil, fmt.Errorf("running layer %s: %w", layer, err)
	}
	var points []int
	for lines := json.NewDecoder(bytes.NewReader(output)); ; {
		var p int
		if err := lines.Decode(&p); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			return nil, fmt.Errorf("running layer %s: %w", layer, err)
		}
		points = append(points, p)
	}
	if want := strings.Count(r.values, "\n"); len(points) != want {
		return nil, fmt.Errorf("running layer %s: %d results for %d addresses", layer, len(points), want)
	}
	return points, nil
}

// runLexical trains the lexical layer on the folder's domains for which keep returns true, and runs it.
func (r *runner) runLexical(folder string, keep func(*line) bool) ([]int, error) {
	args := []string{"run", "./plugins/internal/train/lexical", "-absent=false", "-out", r.folder}
	for flag, name := range map[string]string{"-target": targetFile, "-pool": poolFile} {
		var kept bytes.Buffer
		err := eachLine(filepath.Join(folder, name), func(l *line, raw []byte) error {
			if keep(l) {
				kept.Write(raw)
				kept.WriteByte('\n')
			}
			return nil
		})
		if err != nil {
			return nil, err
		}
		path := filepath.Join(r.folder, flag[1:]+".jsonl")
		if err := os.WriteFile(path, kept.Bytes(), 0o600); err != nil {
			return nil, fmt.Errorf("training layer lexical: %w", err)
		}
		args = append(args, flag, path)
	}
	if _, err := r.command("", "go", args...); err != nil {
		return nil, fmt.Errorf("training layer lexical: %w", err)
	}
	data := map[string]string{}
	written, err := filepath.Glob(filepath.Join(r.folder, "weights*"))
	if err != nil || len(written) == 0 {
		return nil, errors.New("training layer lexical: no weights written")
	}
	for _, path := range written {
		text, err := os.ReadFile(path)
		if err != nil {
			return nil, fmt.Errorf("training layer lexical: %w", err)
		}
		data[filepath.Base(path)] = string(text)
	}
	return r.run("lexical", data)
}

// command runs a program in the module's folder and returns its output.
func (r *runner) command(input, name string, args ...string) ([]byte, error) {
	c := exec.Command(name, args...)
	var stderr bytes.Buffer
	c.Dir, c.Stdin, c.Stderr = r.root, strings.NewReader(input), &stderr
	out, err := c.Output()
	if err != nil {
		return nil, fmt.Errorf("%w: %s", err, bytes.TrimSpace(stderr.Bytes()))
	}
	return out, nil
}
