package plugin

import (
	"context"
	"fmt"

	"assay/host/installation"
	"assay/host/internal/terminal"
	"assay/registry"
	"assay/registry/activation"
	"assay/registry/release"
)

type pluginVerifyCmd struct {
	Plugin    string `arg:"" help:"${plugin_path}"`
	Signature string `placeholder:"FILE" help:"${plugin_signature}"`
	terminal.Output
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
	return t.Say(line, "%s, %s, signed by %s (%s)\n", m.Ref(), m.Digest, signed.Key, signed.Role)
}

// pluginSignature says who signed a plugin, or why the signature does not count here.
type pluginSignature struct {
	Key     string          `json:"key,omitempty"`
	Role    activation.Role `json:"role,omitempty"`
	Refused string          `json:"refused,omitempty"`
}

// String returns a text without a full stop.
func (s *pluginSignature) String() string {
	switch {
	case s == nil:
		return "Not signed"
	case s.Refused != "":
		return "Signature: " + s.Refused
	}
	return fmt.Sprintf("Signed by %s (%s)", s.Key, s.Role)
}

// verifySignature returns nil if there is no signature.
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
