package plugin

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"

	lineupcmd "assay/host/cli/lineup"
	"assay/host/installation"
	"assay/host/internal/terminal"
	"assay/registry"
	"assay/registry/activation"
	"assay/registry/release"
)

// signatureSuffix is added to the name of a plugin's file for that of its signature.
const signatureSuffix = ".sig"

type pluginKeyCmd struct {
	File string `arg:"" help:"File to create, which only its owner can read."`
	Name string `placeholder:"NAME" default:"assay/publisher" help:"Name of the key (default: ${default})."`
	JSON bool   `help:"Print JSON."`
}

func (cmd *pluginKeyCmd) Run(t *terminal.Terminal) error {
	line, err := lineupcmd.NewKeyLine(cmd.File, cmd.Name, activation.Publisher)
	if err != nil {
		return err
	}
	if cmd.JSON {
		return t.JSON(map[string]string{"file": cmd.File, "trust": line})
	}
	t.Printf("%s\n", line)
	return nil
}

type pluginSignCmd struct {
	Plugin string `arg:"" help:"${plugin_path}"`
	Key    string `placeholder:"FILE" help:"${plugin_sign_key}"`
	Out    string `short:"o" placeholder:"FILE" help:"${plugin_sign_out}"`
	JSON   bool   `help:"Print JSON."`
}

func (cmd *pluginSignCmd) Run(ctx context.Context, cfg *installation.Config, t *terminal.Terminal) error {
	m, err := readModule(ctx, cmd.Plugin)
	if err != nil {
		return err
	}
	file := cmd.Key
	if file == "" {
		file = cfg.OperatorKeyPath()
	}
	key, err := installation.ReadKey(file)
	if err != nil {
		return err
	}
	if key == nil {
		return fmt.Errorf("the key %s does not exist: `assay plugin key` creates one", file)
	}
	signature, err := release.Sign(release.Of(m), key)
	if err != nil {
		return err
	}
	out := cmd.Out
	if out == "" {
		out = signatureFile(cmd.Plugin, m)
	}
	if err := os.WriteFile(out, []byte(signature), 0o644); err != nil {
		return err
	}
	line := newPluginLine(m)
	line.File, line.SignedBy = out, key.Name()
	if cmd.JSON {
		return t.JSON(line)
	}
	t.Printf("%s: %s, %s, signed by %s\n", out, m.Ref(), m.Digest, line.SignedBy)
	return nil
}

type pluginVerifyCmd struct {
	Plugin    string `arg:"" help:"${plugin_path}"`
	Signature string `placeholder:"FILE" help:"${plugin_signature}"`
	JSON      bool   `help:"Print JSON."`
}

func (cmd *pluginVerifyCmd) Run(ctx context.Context, cfg *installation.Config, t *terminal.Terminal) error {
	m, err := readModule(ctx, cmd.Plugin)
	if err != nil {
		return err
	}
	trust, err := cfg.ReadTrust()
	if err != nil {
		return err
	}
	signatures, err := readSignature(cmd.Signature, cmd.Plugin, m)
	if err != nil {
		return err
	}
	_, signed, err := release.Accept(trust, release.Of(m), signatures...)
	if err != nil {
		return err
	}
	line := newPluginLine(m)
	line.SignedBy = signed.Key
	if cmd.JSON {
		return t.JSON(line)
	}
	t.Printf("%s, %s, signed by %s (%s)\n", m.Ref(), m.Digest, signed.Key, signed.Role)
	return nil
}

// pluginSignature says who signed a plugin, or why that does not count here.
type pluginSignature struct {
	Key     string          `json:"key,omitempty"`
	Role    activation.Role `json:"role,omitempty"`
	Refused string          `json:"refused,omitempty"`
}

// String is without a full stop.
func (s *pluginSignature) String() string {
	switch {
	case s == nil:
		return "Not signed"
	case s.Refused != "":
		return "Signature: " + s.Refused
	}
	return fmt.Sprintf("Signed by %s (%s)", s.Key, s.Role)
}

// verifySignature returns nil for no signature.
func verifySignature(c *installation.Config, m registry.Module, text string) *pluginSignature {
	if text == "" {
		return nil
	}
	trust, err := c.ReadTrust()
	if err != nil {
		return &pluginSignature{Refused: err.Error()}
	}
	_, signed, err := release.Accept(trust, release.Of(m), text)
	if err != nil {
		return &pluginSignature{Refused: err.Error()}
	}
	return &pluginSignature{Key: signed.Key, Role: signed.Role}
}

// readModule reads or builds a plugin.
func readModule(ctx context.Context, path string) (registry.Module, error) {
	wasm, err := readPlugin(ctx, path)
	if err != nil {
		return registry.Module{}, err
	}
	return registry.OpenModule(wasm)
}

// signatureFile returns the file of a plugin's signature: next to its module, or where `assay plugin build` writes it.
func signatureFile(plugin string, m registry.Module) string {
	if info, err := os.Stat(plugin); err == nil && info.IsDir() {
		plugin = fmt.Sprintf("%s-%s.wasm", m.Manifest.Name, m.Manifest.Version)
	}
	return plugin + signatureSuffix
}

// readSignature returns the signature of a file; if it is not named, that of the plugin's own, or none if there is no
// such file.
func readSignature(file, plugin string, m registry.Module) ([]string, error) {
	named := file != ""
	if !named {
		file = signatureFile(plugin, m)
	}
	f, err := os.Open(file)
	if errors.Is(err, fs.ErrNotExist) && !named {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, release.MaxBytes+1)) // one more is refused
	return []string{string(text)}, err
}
