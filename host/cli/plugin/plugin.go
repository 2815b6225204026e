// Package plugin has the commands for the authors of layers.
package plugin

import (
	"context"
	"fmt"
	"os"

	"assay/host/installation"
	"assay/host/internal/terminal"
	"assay/host/lineup/rehearsal"
	"assay/host/sandbox"
	"assay/registry"
	"assay/registry/project"
)

type PluginCmd struct {
	New     pluginNewCmd     `cmd:"" help:"${plugin_new_cmd}"`
	SDK     pluginSDKCmd     `cmd:"" name:"sdk" help:"${plugin_sdk_cmd}"`
	Build   pluginBuildCmd   `cmd:"" help:"${plugin_build_cmd}"`
	Test    pluginTestCmd    `cmd:"" help:"${plugin_test_cmd}"`
	Run     pluginRunCmd     `cmd:"" help:"${plugin_run_cmd}"`
	Inspect pluginInspectCmd `cmd:"" help:"${plugin_inspect_cmd}"`
	Facts   pluginFactsCmd   `cmd:"" help:"${plugin_facts_cmd}"`
	Bench   pluginBenchCmd   `cmd:"" help:"${plugin_bench_cmd}"`
	Eval    pluginEvalCmd    `cmd:"" help:"${plugin_eval_cmd}"`
	Key     pluginKeyCmd     `cmd:"" help:"${plugin_key_cmd}"`
	Sign    pluginSignCmd    `cmd:"" help:"${plugin_sign_cmd}"`
	Verify  pluginVerifyCmd  `cmd:"" help:"${plugin_verify_cmd}"`
	Push    pluginPushCmd    `cmd:"" help:"${plugin_push_cmd}"`
	Pull    pluginPullCmd    `cmd:"" help:"${plugin_pull_cmd}"`
	Dev     pluginDevCmd     `cmd:"" help:"${plugin_dev_cmd}"`
	Promote pluginPromoteCmd `cmd:"" help:"${plugin_promote_cmd}"`
	Retire  pluginRetireCmd  `cmd:"" help:"${plugin_retire_cmd}"`
}

type pluginBuildCmd struct {
	Dir  string `arg:"" type:"existingdir" default:"." help:"Folder of the layer, with its manifest.json."`
	Wasm string `type:"existingfile" placeholder:"FILE" help:"${plugin_wasm}"`
	Out  string `short:"o" placeholder:"FILE" help:"${plugin_out}"`
	JSON bool   `help:"Print JSON."`
}

func (cmd *pluginBuildCmd) Run(ctx context.Context, t *terminal.Terminal) error {
	wasm, err := cmd.build(ctx)
	if err != nil {
		return err
	}
	box := sandbox.New(sandbox.Config{Compiler: installation.CompilerCommand(), Instances: 1, Logger: installation.QuietLog(t)})
	m, err := openChecked(ctx, box, wasm)
	if err != nil {
		return err
	}
	out := cmd.Out
	if out == "" {
		out = fmt.Sprintf("%s-%s.wasm", m.Manifest.Name, m.Manifest.Version)
	}
	if err := os.WriteFile(out, wasm, 0o644); err != nil {
		return err
	}
	if cmd.JSON {
		line := newPluginLine(m)
		line.File = out
		return t.JSON(line)
	}
	t.Printf("%s: %s, %d KiB, %s\n", out, m.Ref(), len(wasm)>>10, m.Digest)
	printPermissions(t, m.Manifest)
	return nil
}

// pluginLine is a plugin in the output of the commands that build, sign, verify, push and pull it.
type pluginLine struct {
	File      string         `json:"file,omitempty"` // that was written
	Plugin    string         `json:"plugin"`
	Digest    string         `json:"digest"`
	Class     registry.Class `json:"class"`
	Range     [2]int         `json:"score_range"`
	SignedBy  string         `json:"signed_by,omitempty"` // name of the key
	Reference string         `json:"reference,omitempty"` // in an OCI registry
	Manifest  string         `json:"manifest,omitempty"`  // digest of the manifest there

	Passport *rehearsal.Passport `json:"passport,omitempty"` // of a plugin that was published
}

func newPluginLine(m registry.Module) pluginLine {
	lowest, highest := m.Manifest.Range()
	return pluginLine{Plugin: m.Ref(), Digest: m.Digest.String(), Class: m.Manifest.LayerClass(),
		Range: [2]int{lowest, highest}}
}

// printPermissions shows what a plugin may do to a score.
func printPermissions(t *terminal.Terminal, m registry.Manifest) {
	lowest, highest := m.Range()
	t.Printf("Class %s, score %d to %d.", m.LayerClass(), lowest, highest)
	if lowest < 0 {
		t.Printf(" It may clear: a negative score lowers an entity's.")
	}
	t.Printf("\n")
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

// openChecked checks that the sandbox can open a module. It closes the plugin.
func openChecked(ctx context.Context, box *sandbox.Sandbox, wasm []byte) (m registry.Module, err error) {
	if m, err = registry.OpenModule(wasm); err != nil {
		return m, err
	}
	p, err := box.Open(ctx, m)
	if err != nil {
		return m, err
	}
	return m, p.Close(ctx)
}

// readPlugin returns the module of a file, or builds the layer in a folder.
func readPlugin(ctx context.Context, path string) ([]byte, error) {
	if info, err := os.Stat(path); err == nil && info.IsDir() {
		return project.Build(ctx, path)
	}
	return os.ReadFile(path)
}
