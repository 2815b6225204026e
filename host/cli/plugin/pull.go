package plugin

import (
	"context"
	"fmt"
	"os"

	"golang.org/x/mod/semver"

	"assay/host/installation"
	"assay/host/internal/terminal"
	"assay/registry"
	"assay/registry/activation"
	"assay/registry/oci"
	"assay/registry/release"
)

type pluginPullCmd struct {
	Reference      string `arg:"" help:"${plugin_pull_reference}"`
	Out            string `short:"o" placeholder:"FILE" help:"${plugin_pull_out}"`
	registryAccess `embed:""`
	terminal.Output
}

func (cmd *pluginPullCmd) Run(ctx context.Context, c *installation.Command) error {
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
	if cmd.Out != "" {
		return cmd.pull(ctx, c.Terminal, options, ref, trust, cmd.known, cmd.write)
	}
	s, err := c.Open(ctx)
	if err != nil {
		return err
	}
	return cmd.pull(ctx, c.Terminal, options, ref, trust, s.Store.Plugins,
		func(m registry.Module, signature string) (pluginLine, error) {
			return publish(ctx, s, m, []string{signature})
		})
}

// pull finds a plugin, verifies its signature before it reads the module, and hands both to keep.
func (cmd *pluginPullCmd) pull(
	ctx context.Context, t *terminal.Terminal, options oci.Options, ref oci.Reference, trust activation.Trust,
	known func(context.Context) ([]registry.PublishedPlugin, error),
	keep func(registry.Module, string) (pluginLine, error),
) error {
	found, err := options.Find(ctx, ref, registry.NoteSignature)
	if err != nil {
		return err
	}
	signature, signed, err := release.Accept(trust, release.Release{Name: found.Name, Version: found.Version,
		Digest: found.Digest}, found.Notes[registry.NoteSignature]...)
	if err != nil {
		return fmt.Errorf("pulling %s: %w", ref, err)
	}
	plugins, err := known(ctx)
	if err != nil {
		return err
	}
	newest, err := registry.Newest(plugins, found.Name)
	if err == nil && !ref.Pinned() && semver.Compare("v"+newest.Version, "v"+found.Version) > 0 {
		return fmt.Errorf("pulling %s: %w", ref, registry.Refuse(registry.Downgraded, "%s is known here, and the tag "+
			"names %s. To pull the older one all the same, name it by its digest: %s", newest.Ref(), found.Version,
			ref.Pin(found.Manifest)))
	}
	m, err := found.Module(ctx)
	if err != nil {
		return err
	}
	line, err := keep(m, signature)
	if err != nil {
		return err
	}
	line.SignedBy, line.Reference, line.Manifest = signed.Key, ref.String(), found.Manifest
	did := "Published"
	if cmd.Out != "" {
		did = cmd.Out + ":"
	}
	return line.show(t, did, m)
}

// known returns the plugin that is in the file to write.
func (cmd *pluginPullCmd) known(context.Context) ([]registry.PublishedPlugin, error) {
	wasm, err := os.ReadFile(cmd.Out)
	var m registry.Module
	if err == nil {
		m, err = registry.OpenModule(wasm)
	}
	if err != nil {
		return nil, nil //nolint:nilerr // it is not there, or something else that is overwritten
	}
	return []registry.PublishedPlugin{{Name: m.Manifest.Name, Version: m.Manifest.Version, Digest: m.Digest}}, nil
}

// write writes a plugin and its signature into files.
func (cmd *pluginPullCmd) write(m registry.Module, signature string) (pluginLine, error) {
	line := newPluginLine(m)
	line.File = cmd.Out
	err := os.WriteFile(cmd.Out, m.Wasm, 0o644)
	if err == nil {
		err = os.WriteFile(cmd.Out+signatureSuffix, []byte(signature), 0o644)
	}
	return line, err
}
