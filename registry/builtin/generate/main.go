// Command generate builds the first-party modules for a release, in the same way as hosts that run from the source, and
// prints their digests. It replaces the files of earlier runs.
package main

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"path/filepath"

	"assay/registry"
	"assay/registry/builtin"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := generate(ctx, os.Stdout)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "generate:", err)
		os.Exit(1)
	}
}

func generate(ctx context.Context, out io.Writer) error {
	source, err := registry.FindSource(".", nil, slog.Default())
	if err != nil {
		return err
	}
	modules, err := source.BuildAll(ctx, nil)
	if err != nil {
		return err
	}
	dir := filepath.Join(source.Root, "registry", "builtin", builtin.Folder)
	if err := os.RemoveAll(dir); err != nil {
		return fmt.Errorf("removing older modules: %w", err)
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return fmt.Errorf("creating the folder of the modules: %w", err)
	}
	for _, m := range modules {
		if err := os.WriteFile(filepath.Join(dir, m.Manifest.Name+".wasm"), m.Wasm, 0o644); err != nil {
			return fmt.Errorf("writing a module: %w", err)
		}
		fmt.Fprintf(out, "%s  %s\n", m.Digest, m.Ref())
	}
	return nil
}
