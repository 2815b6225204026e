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

//go:embed answer.go.txt
var answer string

// bench builds layers of the source around the working directory natively, with other data than is beside them, and
// asks them.
type bench struct {
	root   string // of the module
	folder string // for what is built; its owner removes it
	values string // the addresses, a line each
}

func newBench(folder string, all []address) (*bench, error) {
	root, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", "assay").Output()
	if err != nil {
		return nil, fmt.Errorf("finding the layers' source: %w", err)
	}
	var values strings.Builder
	for i := range all {
		fmt.Fprintln(&values, all[i].value)
	}
	return &bench{strings.TrimSpace(string(root)), folder, values.String()}, nil
}

// ask returns the points that a layer gives each address; -1 where the address is refused. data replaces files of the
// layer, by name.
func (b *bench) ask(layer string, data map[string]string) ([]int, error) {
	source := filepath.Join(b.root, "plugins", layer)
	overlay := map[string]map[string]string{"Replace": {}}
	put := func(name, text string) error {
		path := filepath.Join(b.folder, layer+"-"+name)
		overlay["Replace"][filepath.Join(source, name)] = path
		return os.WriteFile(path, []byte(text), 0o600)
	}
	if err := put("main.go", answer); err != nil {
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
	list, program := filepath.Join(b.folder, layer+".json"), filepath.Join(b.folder, layer)
	if err := os.WriteFile(list, document, 0o600); err != nil {
		return nil, fmt.Errorf("building layer %s: %w", layer, err)
	}
	if _, err := b.command("", "go", "build", "-overlay", list, "-o", program, "./plugins/"+layer); err != nil {
		return nil, fmt.Errorf("building layer %s: %w", layer, err)
	}
	answers, err := b.command(b.values, program)
	if err != nil {
		return nil, fmt.Errorf("asking layer %s: %w", layer, err)
	}
	var points []int
	for lines := json.NewDecoder(bytes.NewReader(answers)); ; {
		var p int
		if err := lines.Decode(&p); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			return nil, fmt.Errorf("asking layer %s: %w", layer, err)
		}
		points = append(points, p)
	}
	if want := strings.Count(b.values, "\n"); len(points) != want {
		return nil, fmt.Errorf("asking layer %s: %d answers to %d addresses", layer, len(points), want)
	}
	return points, nil
}

// lexical asks the lexical layer, trained anew on those lines of the folder's sites that keep takes.
func (b *bench) lexical(folder string, keep func(*line) bool) ([]int, error) {
	args := []string{"run", "./plugins/internal/train/lexical", "-absent=false", "-out", b.folder}
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
		path := filepath.Join(b.folder, flag[1:]+".jsonl")
		if err := os.WriteFile(path, kept.Bytes(), 0o600); err != nil {
			return nil, fmt.Errorf("training layer lexical: %w", err)
		}
		args = append(args, flag, path)
	}
	if _, err := b.command("", "go", args...); err != nil {
		return nil, fmt.Errorf("training layer lexical: %w", err)
	}
	data := map[string]string{}
	written, err := filepath.Glob(filepath.Join(b.folder, "weights*"))
	if err != nil || len(written) == 0 {
		return nil, errors.New("training layer lexical: no weights were written")
	}
	for _, path := range written {
		text, err := os.ReadFile(path)
		if err != nil {
			return nil, fmt.Errorf("training layer lexical: %w", err)
		}
		data[filepath.Base(path)] = string(text)
	}
	return b.ask("lexical", data)
}

// command runs a program in the module's root and returns what it prints.
func (b *bench) command(input, name string, args ...string) ([]byte, error) {
	c := exec.Command(name, args...)
	var told bytes.Buffer
	c.Dir, c.Stdin, c.Stderr = b.root, strings.NewReader(input), &told
	out, err := c.Output()
	if err != nil {
		return nil, fmt.Errorf("%w: %s", err, bytes.TrimSpace(told.Bytes()))
	}
	return out, nil
}
