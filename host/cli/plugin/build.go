package plugin

import (
	"cmp"
	"context"
	"fmt"
	"os"

	"assay/host/internal/terminal"
	"assay/host/sandbox"
	"assay/registry"
	"assay/registry/project"
)

type pluginBuildCmd struct {
	Dir  string `arg:"" type:"existingdir" default:"." help:"Folder of the layer, with its manifest.json."`
	Wasm string `type:"existingfile" placeholder:"FILE" help:"${plugin_wasm}"`
	Out  string `short:"o" placeholder:"FILE" help:"${plugin_out}"`
	terminal.Output
}

func (cmd *pluginBuildCmd) Run(ctx context.Context, t *terminal.Terminal) error {
	wasm, err := cmd.build(ctx)
	if err != nil {
		return err
	}
	var m registry.Module
	err = withModule(ctx, authorSandbox(t), wasm, func(_ *sandbox.Plugin, opened registry.Module) error {
		m = opened
		return knowsFacts(m)
	})
	if err != nil {
		return err
	}
	out := cmp.Or(cmd.Out, fileOf(m))
	if err := os.WriteFile(out, wasm, 0o644); err != nil {
		return err
	}
	line := newPluginLine(m)
	line.File = out
	return t.Say(line, "%s: %s, %d KiB, %s\n%s\n", out, m.Ref(), len(wasm)>>10, m.Digest, permissions(m.Manifest))
}

// fileOf returns the name of a plugin's file.
func fileOf(m registry.Module) string {
	return fmt.Sprintf("%s-%s.wasm", m.Manifest.Name, m.Manifest.Version)
}

func (cmd *pluginBuildCmd) build(ctx context.Context) ([]byte, error) {
	if cmd.Wasm == "" {
		return project.Build(ctx, cmd.Dir)
	}
	manifest, cases, err := registry.ReadDescription(cmd.Dir)
	if err != nil {
		return nil, err
	}
	wasm, err := os.ReadFile(cmd.Wasm)
	if err != nil {
		return nil, err
	}
	return registry.Pack(wasm, manifest, cases)
}
