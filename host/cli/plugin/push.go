package plugin

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"os"
	"strings"

	"golang.org/x/mod/semver"

	"assay/host/installation"
	"assay/host/internal/terminal"
	"assay/registry"
	"assay/registry/activation"
	"assay/registry/oci"
	"assay/registry/release"
)

// registryAccess are the flags with which commands reach an OCI registry.
type registryAccess struct {
	Username  string `placeholder:"NAME" help:"${registry_username}"`
	Password  string `name:"password-file" placeholder:"FILE" help:"${registry_password}"`
	CA        string `name:"ca" placeholder:"FILE" help:"${registry_ca}"`
	PlainHTTP bool   `name:"plain-http" help:"${registry_plain}"`
}

// options reads the files that the flags name.
func (r registryAccess) options() (oci.Options, error) {
	o := oci.Options{Username: r.Username, PlainHTTP: r.PlainHTTP, UserAgent: "assay/" + installation.Version}
	if (r.Username == "") != (r.Password == "") {
		return o, terminal.Misuse{Err: errors.New("--username and --password-file go together")}
	}
	if r.Password != "" {
		text, err := installation.ReadFile(r.Password)
		if err != nil {
			return o, fmt.Errorf("--password-file: %w", err)
		}
		o.Password = strings.TrimRight(string(text), "\r\n")
	}
	if r.CA != "" {
		text, err := os.ReadFile(r.CA)
		if err != nil {
			return o, fmt.Errorf("--ca: %w", err)
		}
		if o.CA, err = x509.SystemCertPool(); err != nil {
			return o, err
		}
		if !o.CA.AppendCertsFromPEM(text) {
			return o, fmt.Errorf("--ca: %s has no certificate as PEM", r.CA)
		}
	}
	return o, nil
}

type pluginPushCmd struct {
	Plugin         string `arg:"" help:"${plugin_path}"`
	Reference      string `arg:"" optional:"" help:"${plugin_push_reference}"`
	Signature      string `placeholder:"FILE" help:"${plugin_signature}"`
	registryAccess `embed:""`
	JSON           bool `help:"Print JSON."`
}

func (cmd *pluginPushCmd) Run(ctx context.Context, cfg *installation.Config, t *terminal.Terminal) error {
	m, err := readModule(ctx, cmd.Plugin)
	if err != nil {
		return err
	}
	signatures, err := readSignature(cmd.Signature, cmd.Plugin, m)
	if err != nil {
		return err
	}
	if cmd.Reference == "" {
		return installation.Use(ctx, cfg, t, func(b *installation.Backend) error {
			line, err := publish(ctx, b, cfg, t, m, signatures)
			if err != nil {
				return err
			}
			return line.print(t, cmd.JSON, "Published", m)
		})
	}
	ref, err := oci.ParseReference(cmd.Reference)
	if err != nil {
		return err
	}
	options, err := cmd.options()
	if err != nil {
		return err
	}
	trust, err := cfg.ReadTrust()
	if err != nil {
		return err
	}
	signature, signed, err := sign(cfg, trust, m, signatures)
	if err != nil {
		return err
	}
	notes := registry.Notes{registry.NoteSignature: signature}
	passport, err := issue(ctx, cfg, t, m, notes)
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
	return line.print(t, cmd.JSON, "Pushed", m)
}

// print shows a plugin that was pushed or pulled.
func (p pluginLine) print(t *terminal.Terminal, asJSON bool, did string, m registry.Module) error {
	if asJSON {
		return t.JSON(p)
	}
	t.Printf("%s %s, %s, signed by %s\n", did, p.Plugin, p.Digest, p.SignedBy)
	if p.Reference != "" {
		t.Printf("Registry: %s, %s\n", p.Reference, p.Manifest)
	}
	printPermissions(t, m.Manifest)
	if p.Passport != nil {
		printPassport(t, *p.Passport)
	}
	return nil
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
func publish(
	ctx context.Context, b *installation.Backend, cfg *installation.Config, t *terminal.Terminal, m registry.Module, signatures []string,
) (pluginLine, error) {
	trust, err := cfg.ReadTrust()
	if err != nil {
		return pluginLine{}, err
	}
	if len(signatures) == 0 {
		stored, err := b.Store.PluginNotes(ctx, m.Digest)
		if err != nil {
			return pluginLine{}, err
		}
		if _, _, err = release.Accept(trust, release.Of(m), stored[registry.NoteSignature]); err == nil {
			signatures = []string{stored[registry.NoteSignature]}
		}
	}
	signature, signed, err := sign(cfg, trust, m, signatures)
	if err != nil {
		return pluginLine{}, err
	}
	// The compiled code stays in the data directory's cache, so that a lineup with this plugin loads at once.
	if _, err := openChecked(ctx, b.OpenSandbox(cfg, installation.QuietLog(t)), m.Wasm); err != nil {
		return pluginLine{}, err
	}
	notes := registry.Notes{registry.NoteSignature: signature}
	passport, err := issue(ctx, cfg, t, m, notes)
	if err != nil {
		return pluginLine{}, err
	}
	if err := b.Store.PublishPlugin(ctx, m, m.Manifest.Version, false, notes); err != nil {
		return pluginLine{}, err
	}
	line := newPluginLine(m)
	line.SignedBy, line.Passport = signed.Key, passport
	return line, nil
}

type pluginPullCmd struct {
	Reference      string `arg:"" help:"${plugin_pull_reference}"`
	Out            string `short:"o" placeholder:"FILE" help:"${plugin_pull_out}"`
	registryAccess `embed:""`
	JSON           bool `help:"Print JSON."`
}

func (cmd *pluginPullCmd) Run(ctx context.Context, cfg *installation.Config, t *terminal.Terminal) error {
	ref, err := oci.ParseReference(cmd.Reference)
	if err != nil {
		return err
	}
	options, err := cmd.options()
	if err != nil {
		return err
	}
	trust, err := cfg.ReadTrust()
	if err != nil {
		return err
	}
	if cmd.Out != "" {
		return cmd.pull(ctx, t, options, ref, trust, cmd.known, cmd.write)
	}
	return installation.Use(ctx, cfg, t, func(b *installation.Backend) error {
		return cmd.pull(ctx, t, options, ref, trust, b.Store.Plugins,
			func(m registry.Module, signature string) (pluginLine, error) {
				return publish(ctx, b, cfg, t, m, []string{signature})
			})
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
	return line.print(t, cmd.JSON, did, m)
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
