package plugin

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"

	"assay/host/installation"
	"assay/host/internal/terminal"
	"assay/registry"
	"assay/registry/activation"
	"assay/registry/release"
)

// signatureSuffix is appended to the name of a plugin's file to name the file of its signature.
const signatureSuffix = ".sig"

type pluginSignCmd struct {
	Plugin string `arg:"" help:"${plugin_path}"`
	Key    string `placeholder:"FILE" help:"${plugin_sign_key}"`
	Out    string `short:"o" placeholder:"FILE" help:"${plugin_sign_out}"`
	terminal.Output
}

func (cmd *pluginSignCmd) Run(ctx context.Context, cfg *installation.Config, t *terminal.Terminal) error {
	m, err := readModule(ctx, cmd.Plugin)
	if err != nil {
		return err
	}
	file := cmp.Or(cmd.Key, cfg.OperatorKeyPath())
	key, err := installation.ReadKey(file)
	if err != nil {
		return err
	}
	if key == nil {
		return fmt.Errorf("the key %s does not exist: `assay plugin key` creates one", file)
	}
	out := cmp.Or(cmd.Out, signatureFile(cmd.Plugin, m))
	if err := writeSignature(out, m, key); err != nil {
		return err
	}
	line := newPluginLine(m)
	line.File, line.SignedBy = out, key.Name()
	return t.Say(line, "%s: %s, %s, signed by %s\n", out, m.Ref(), m.Digest, line.SignedBy)
}

// writeSignature signs a plugin and writes the signature to a file.
func writeSignature(file string, m registry.Module, key *activation.Key) error {
	signature, err := release.Sign(release.Of(m), key)
	if err != nil {
		return err
	}
	return os.WriteFile(file, []byte(signature), 0o644)
}

// signatureFile returns the file of a plugin's signature: next to its module, or where `assay plugin build` writes it.
func signatureFile(plugin string, m registry.Module) string {
	if info, err := os.Stat(plugin); err == nil && info.IsDir() {
		plugin = fileOf(m)
	}
	return plugin + signatureSuffix
}

// readSignature returns the signature in a file. If no file is named, it reads the plugin's own signature file, or
// returns none if there is no such file.
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
