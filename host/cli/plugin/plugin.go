// Package plugin has the commands for the authors of layers.
package plugin

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"

	"assay/host/entity"
	"assay/host/installation"
	"assay/host/internal/terminal"
	"assay/host/lineup/rehearsal"
	"assay/host/sandbox"
	"assay/registry"
	"assay/registry/project"
	"assay/registry/suggest"
	"assay/sdk"
)

// Cmd has the commands of `assay plugin`.
type Cmd struct {
	New      pluginNewCmd      `cmd:"" help:"${plugin_new_cmd}"`
	SDK      pluginSDKCmd      `cmd:"" name:"sdk" help:"${plugin_sdk_cmd}"`
	Build    pluginBuildCmd    `cmd:"" help:"${plugin_build_cmd}"`
	Test     pluginTestCmd     `cmd:"" help:"${plugin_test_cmd}"`
	Run      pluginRunCmd      `cmd:"" help:"${plugin_run_cmd}"`
	Inspect  pluginInspectCmd  `cmd:"" help:"${plugin_inspect_cmd}"`
	Facts    pluginFactsCmd    `cmd:"" help:"${plugin_facts_cmd}"`
	Bench    pluginBenchCmd    `cmd:"" help:"${plugin_bench_cmd}"`
	Eval     pluginEvalCmd     `cmd:"" help:"${plugin_eval_cmd}"`
	Key      pluginKeyCmd      `cmd:"" help:"${plugin_key_cmd}"`
	Sign     pluginSignCmd     `cmd:"" help:"${plugin_sign_cmd}"`
	Verify   pluginVerifyCmd   `cmd:"" help:"${plugin_verify_cmd}"`
	Push     pluginPushCmd     `cmd:"" help:"${plugin_push_cmd}"`
	Transfer pluginTransferCmd `cmd:"" help:"${plugin_transfer_cmd}"`
	Pull     pluginPullCmd     `cmd:"" help:"${plugin_pull_cmd}"`
	Dev      pluginDevCmd      `cmd:"" help:"${plugin_dev_cmd}"`
	Promote  pluginPromoteCmd  `cmd:"" help:"${plugin_promote_cmd}"`
	Retire   pluginRetireCmd   `cmd:"" help:"${plugin_retire_cmd}"`
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
	Needs    string              `json:"needs,omitempty"`    // see neededWeight
}

func newPluginLine(m registry.Module) pluginLine {
	lowest, highest := m.Manifest.Range()
	return pluginLine{Plugin: m.Ref(), Digest: m.Digest.String(), Class: m.Manifest.LayerClass(),
		Range: [2]int{lowest, highest}}
}

// permissions says what a plugin may do to a score.
func permissions(m registry.Manifest) string {
	lowest, highest := m.Range()
	text := fmt.Sprintf("Class %s, score %d to %d.", m.LayerClass(), lowest, highest)
	if lowest < 0 {
		text += " It may clear: a negative score lowers an entity's."
	}
	return text
}

// readPlugin returns the module of a file, or builds the layer in a folder.
func readPlugin(ctx context.Context, path string) ([]byte, error) {
	if info, err := os.Stat(path); err == nil && info.IsDir() {
		return project.Build(ctx, path)
	}
	return os.ReadFile(path)
}

// readModule reads or builds a plugin.
func readModule(ctx context.Context, path string) (registry.Module, error) {
	wasm, err := readPlugin(ctx, path)
	if err != nil {
		return registry.Module{}, err
	}
	return registry.OpenModule(wasm)
}

// withPlugin reads or builds a plugin, opens it in the sandbox as a host does, and calls do.
func withPlugin(
	ctx context.Context, t *terminal.Terminal, path string, do func(*sandbox.Plugin, registry.Module) error,
) error {
	wasm, err := readPlugin(ctx, path)
	if err != nil {
		return err
	}
	return withModule(ctx, authorSandbox(t), wasm, do)
}

// authorSandbox returns a sandbox for an author's commands, which keep compiled code in the user's cache.
func authorSandbox(t *terminal.Terminal) *sandbox.Sandbox {
	log := installation.QuietLog(t)
	cfg := sandbox.Config{Compiler: installation.CompilerCommand(), Instances: 1, Logger: log}
	cfg.CacheDir, cfg.CacheKey = installation.UserCache("compiled", log)
	return sandbox.New(cfg)
}

// factName matches the constants of the SDK with the kinds and names of facts.
var factName = regexp.MustCompile(`(\w+)Fact = "([a-z0-9_.]+)"`)

// factValue matches, by kind, what facts can be if they are present. Those of other kinds can be any text.
var factValue = map[string]*regexp.Regexp{"Number": regexp.MustCompile(`^(0|[1-9]\d{0,8})?$`),
	"YesNo": regexp.MustCompile(`^(yes|no)?$`)}

// knowsFacts returns an error if a manifest names a fact that does not exist, which would always be absent, or a case
// gives one that no host can give.
func knowsFacts(m registry.Module) error {
	constants, err := fs.ReadFile(sdk.Source, "facts.go")
	if err != nil {
		return err
	}
	kinds := map[string]string{} // by name
	for _, match := range factName.FindAllStringSubmatch(string(constants), -1) {
		kinds[match[2]] = match[1]
	}
	cases, err := m.Cases() // with facts of the manifest alone
	bad := func(format string, args ...any) { err = errors.Join(err, fmt.Errorf(format, args...)) }
	for _, name := range m.Manifest.Facts {
		if kinds[name] == "" && !strings.HasPrefix(name, "config.") {
			bad("the manifest names the fact %q, which does not exist%s", name,
				suggest.Word(name, slices.Sorted(maps.Keys(kinds))))
		}
	}
	for _, c := range cases {
		for name, value := range c.Facts {
			if values := factValue[kinds[name]]; values != nil && !values.MatchString(value) {
				bad("the case %q gives %s the impossible value %q", c.Name, name, value)
			}
			if slices.ContainsFunc(entity.FactTable(), func(f entity.Fact) bool { return f.Name == name }) {
				bad("the case %q gives %s, which hosts read from the value", c.Name, name)
			}
		}
	}
	return err
}

// withModule opens a module in a sandbox, and calls do.
func withModule(
	ctx context.Context, box *sandbox.Sandbox, wasm []byte, do func(*sandbox.Plugin, registry.Module) error,
) error {
	m, err := registry.OpenModule(wasm)
	if err != nil {
		return err
	}
	p, err := box.Open(ctx, m)
	if err != nil {
		return err
	}
	return errors.Join(do(p, m), p.Close(ctx))
}
