package plugin

import (
	"context"
	"errors"
	"fmt"

	"assay/host/installation"
	"assay/host/internal/terminal"
	"assay/host/lineup"
	"assay/host/sandbox"
	"assay/registry"
	"assay/registry/activation"
	"assay/registry/oci"
	"assay/registry/release"
)

type pluginPushCmd struct {
	Plugin         string `arg:"" help:"${plugin_path}"`
	Reference      string `arg:"" optional:"" help:"${plugin_push_reference}"`
	Signature      string `placeholder:"FILE" help:"${plugin_signature}"`
	registryAccess `embed:""`
	terminal.Output
}

func (cmd *pluginPushCmd) Run(ctx context.Context, c *installation.Command) error {
	if cmd.Reference == "" && cmd.registryAccess != (registryAccess{}) {
		return terminal.Misuse{Err: errors.New("flags for a registry need its reference")}
	}
	m, err := readModule(ctx, cmd.Plugin)
	if err != nil {
		return err
	}
	signatures, err := readSignature(cmd.Signature, cmd.Plugin, m)
	if err != nil {
		return err
	}
	if err := rehearse(ctx, c.Terminal, m); err != nil {
		return err
	}
	if cmd.Reference == "" {
		s, err := c.Open(ctx)
		if err != nil {
			return err
		}
		line, err := publish(ctx, s, m, signatures)
		if err != nil {
			return err
		}
		return line.show(c.Terminal, "Published", m)
	}
	return cmd.push(ctx, c, m, signatures)
}

// rehearse runs the cases of a plugin that is about to be published. It fails if a case fails, or if the plugin names a
// fact that does not exist.
func rehearse(ctx context.Context, t *terminal.Terminal, m registry.Module) error {
	return withModule(ctx, authorSandbox(t), m.Wasm, func(p *sandbox.Plugin, m registry.Module) error {
		report, err := runCases(ctx, p, m)
		switch {
		case errors.Is(err, errNoCases):
			return knowsFacts(m)
		case err != nil:
			return err
		case report.Failed == 0:
			return nil
		}
		printFailures(&terminal.Terminal{Out: t.Err, Err: t.Err}, report)
		return fmt.Errorf("%d of %d cases failed, so nothing was published", report.Failed, len(report.Cases))
	})
}

// push publishes a plugin in an OCI registry.
func (cmd *pluginPushCmd) push(ctx context.Context, c *installation.Command, m registry.Module,
	signatures []string) error {
	ref, err := oci.ParseReference(cmd.Reference)
	if err != nil {
		return err
	}
	options, err := cmd.options()
	if err != nil {
		return err
	}
	trust, err := c.ReadTrust()
	if err != nil {
		return err
	}
	signature, signed, err := sign(c.Config, trust, m, signatures)
	if err != nil {
		return err
	}
	notes := registry.Notes{registry.NoteSignature: signature}
	passport, err := issue(ctx, c, m, notes)
	if err != nil {
		return err
	}
	pushed, manifest, err := options.Push(ctx, ref, m, notes)
	if err != nil {
		return err
	}
	line := newPluginLine(m)
	line.Passport = passport
	line.SignedBy, line.Reference, line.Manifest = signed.Key, pushed.String(), manifest
	return line.show(c.Terminal, "Pushed", m)
}

// show prints a plugin that was pushed or pulled.
func (p pluginLine) show(t *terminal.Terminal, did string, m registry.Module) error {
	return t.Show(p, func() error {
		t.Printf("%s %s, %s, signed by %s\n", did, p.Plugin, p.Digest, p.SignedBy)
		if p.Reference != "" {
			t.Printf("Registry: %s, %s\n", p.Reference, p.Manifest)
		}
		t.Printf("%s\n", permissions(m.Manifest))
		if p.Passport != nil {
			printPassport(t, *p.Passport)
		}
		if p.Needs != "" {
			t.Printf("Note: %s. `assay plugin promote` takes --weight.\n", p.Needs)
		}
		next := "promote " + m.Manifest.Name
		if did == "Pushed" {
			next = "pull " + p.Reference
		}
		t.Printf("Next: assay plugin %s\n", next)
		return nil
	})
}

// sign returns the first signature that the trust file accepts. If there are none, the operator's key signs, if this
// machine has it.
func sign(c *installation.Config,
	trust activation.Trust, m registry.Module, signatures []string,
) (signature string, signed release.Signed, err error) {
	if len(signatures) == 0 {
		key, err := installation.ReadKey(c.OperatorKeyPath())
		if err != nil {
			return "", signed, err
		}
		if key != nil {
			if signature, err = release.Sign(release.Of(m), key); err != nil {
				return "", signed, err
			}
			signatures = []string{signature}
		}
	}
	return release.Accept(trust, release.Of(m), signatures...)
}

// publish publishes a plugin in the installation's database, with the first signature that the trust file accepts.
// Without signatures it keeps the one that was published before, or else the operator's key signs.
func publish(ctx context.Context, s *installation.Session, m registry.Module, signatures []string) (pluginLine, error) {
	trust, err := s.ReadTrust()
	if err != nil {
		return pluginLine{}, err
	}
	if len(signatures) == 0 {
		stored, err := s.Store.PluginNotes(ctx, m.Digest)
		if err != nil {
			return pluginLine{}, err
		}
		if _, _, err = release.Accept(trust, release.Of(m), stored[registry.NoteSignature]); err == nil {
			signatures = []string{stored[registry.NoteSignature]}
		}
	}
	signature, signed, err := sign(s.Config, trust, m, signatures)
	if err != nil {
		return pluginLine{}, err
	}
	// The compiled code stays in the data directory's cache, so that a lineup with this plugin loads at once.
	box := s.OpenSandbox(s.Config, installation.QuietLog(s.Terminal))
	opens := func(*sandbox.Plugin, registry.Module) error { return nil }
	if err := withModule(ctx, box, m.Wasm, opens); err != nil {
		return pluginLine{}, err
	}
	notes := registry.Notes{registry.NoteSignature: signature}
	passport, err := issue(ctx, s.Command, m, notes)
	if err != nil {
		return pluginLine{}, err
	}
	if err := s.Store.PublishPlugin(ctx, m, m.Manifest.Version, signed.Public, notes); err != nil {
		return pluginLine{}, err
	}
	line := newPluginLine(m)
	line.SignedBy, line.Passport = signed.Key, passport
	if active, err := s.Store.ActiveLineup(ctx); err == nil { // only advice, so it needs no signature
		layer := (&pluginPromoteCmd{}).layer(active.Lineup.Layer(m.Manifest.Name),
			promotion{Plugin: m.Ref(), digest: m.Digest}, m.Manifest)
		line.Needs, err = neededWeight(ctx, s.Store, active.Lineup, layer)
		return line, err
	}
	return line, nil
}

// neededWeight says what weight a layer needs to be live in a lineup, or "" if its own suffices.
func neededWeight(ctx context.Context, source lineup.Source, l registry.LineupDocument, layer registry.LineupLayer) (
	string, error) {
	plugins, err := lineup.Manifests(ctx, source)
	l = l.With(layer)
	return l.NeededWeight(layer, l.ManifestsOf(plugins)), err
}
