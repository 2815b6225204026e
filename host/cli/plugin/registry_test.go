package plugin

import (
	"bytes"
	"cmp"
	"encoding/base64"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"assay/host/hosttest"
	"assay/host/store/postgres/postgrestest"
	"assay/registry"
	"assay/registry/activation"
	"assay/registry/expect"
	"assay/registry/release"
)

func TestPasswordThatOthersCanRead(t *testing.T) {
	t.Parallel()
	file := hosttest.WriteFile(t, "password", []byte("secret\n"))
	access := registryAccess{Username: "ana", Password: file}
	expect.Equal(t, "password", expect.Value(access.options())(t).Password, "secret")
	expect.NoError(t, os.Chmod(file, 0o640))
	expect.ErrorText(t, "a group can read it", expect.ErrorOf(access.options()), file+" (mode 640): run chmod 600")
}

// TestRegistryRefusals changes what a registry stores and whom the operator trusts. Each plugin is refused by name.
func TestRegistryRefusals(t *testing.T) {
	t.Parallel()
	p := newPublisher(t, true)
	probe, newer := emptyPlugin(t, "probe", "1.0.0"), emptyPlugin(t, "probe", "2.0.0")
	other := emptyPlugin(t, "other", "1.0.0")
	evil := emptyPlugin(t, "probe", "1.0.0")
	evil = expect.Value(registry.OpenModule(append(evil.Wasm, 0, 2, 1, 'x')))(t)
	flip := func(text []byte) []byte { text[len(text)/2] ^= 1; return text }
	former := strings.Replace("publisher "+p.key.Verifier, "publisher", "former", 1)
	hosts := strings.Replace("publisher "+p.key.Verifier, "publisher", "host", 1)
	for _, m := range []registry.Module{probe, newer} {
		p.does(t, 0, p.trust, "push", p.write(t, m), p.address+"/clean/probe")
	}
	changed := func(change func(manifest map[string]any)) func(*testing.T, string) {
		return func(t *testing.T, repository string) { p.replace(t, repository, "1.0.0", change) }
	}
	resigned := func(signature string) func(*testing.T, string) {
		return func(t *testing.T, repository string) { p.sign(t, repository, "1.0.0", signature) }
	}
	for name, test := range map[string]struct {
		tamper func(t *testing.T, repository string)
		trust  string // default: the publisher's key is listed
		from   string // tag or digest; default: 1.0.0
		file   *registry.Module
		want   string // "": it is accepted
	}{
		"nothing": {},
		"an altered module": {want: "refused, altered: application/wasm has the digest sha256:",
			tamper: func(t *testing.T, _ string) { p.damage(t, probe.Digest.String(), flip) }},
		"an altered module and manifest": {want: "refused, altered: probe@1.0.0 was signed with the digest " +
			probe.Digest.String() + ", and this one has " + evil.Digest.String(),
			tamper: func(t *testing.T, repository string) {
				p.replace(t, repository, "1.0.0", func(m map[string]any) {
					ociLayer(m)["digest"], ociLayer(m)["size"] = p.put(t, repository, "", evil.Wasm), len(evil.Wasm)
				})
			}},
		"an altered manifest": {want: "refused, altered: the manifest has the digest sha256:",
			tamper: func(t *testing.T, repository string) {
				digest, _ := p.tagged(t, repository, "1.0.0")
				p.damage(t, digest, func(text []byte) []byte {
					return bytes.Replace(text, []byte("Empty"), []byte("Amply"), 1)
				})
			}},
		"an altered signature": {want: "refused, altered: application/vnd.assay.plugin.signature.v1 has the digest",
			tamper: func(t *testing.T, repository string) { p.damage(t, p.signatureOf(t, repository, "1.0.0"), flip) }},
		"a forged signature": {want: "refused, altered: its signature: invalid signature for key ana",
			tamper: resigned(strings.Replace(p.signed(t, newer), "2.0.0", "1.0.0", 1))},
		"another plugin's signature": {
			want:   "refused, swapped: it is probe@1.0.0, and its signature is that of other@1.0.0",
			tamper: resigned(p.signed(t, other))},
		"a truncated module": {want: "refused, truncated: the registry has 100 of the ",
			tamper: func(t *testing.T, _ string) {
				p.damage(t, probe.Digest.String(), func(text []byte) []byte { return text[:100] })
			}},
		"a module with more bytes": {want: "refused, oversized: the registry has ",
			tamper: func(t *testing.T, _ string) {
				p.damage(t, probe.Digest.String(), func(text []byte) []byte { return append(text, text...) })
			}},
		"an oversized module": {want: "refused, oversized: its layer has 8388609 bytes, more than 8388608",
			tamper: changed(func(m map[string]any) { ociLayer(m)["size"] = registry.MaxModuleBytes + 1 })},
		"a negative size": {want: "refused, oversized: its layer has -1 bytes",
			tamper: changed(func(m map[string]any) { ociLayer(m)["size"] = -1 })},
		"an oversized manifest": {want: "refused, oversized: its manifest has ",
			tamper: changed(func(m map[string]any) { m["x"] = strings.Repeat("x", 70_000) })},
		"an oversized signature": {want: "refused, oversized: its signature has 5000 bytes, more than 4096",
			tamper: resigned(strings.Repeat("x", 5000))},
		"another config": {want: `refused, other format: its config has the media type "application/x"`,
			tamper: changed(func(m map[string]any) { m["config"].(map[string]any)["mediaType"] = "application/x" })},
		"another layer": {want: `refused, other format: its layer has the media type "application/x"`,
			tamper: changed(func(m map[string]any) { ociLayer(m)["mediaType"] = "application/x" })},
		"two layers": {want: "refused, other format: it has 2 layers, not one",
			tamper: changed(func(m map[string]any) { m["layers"] = []any{ociLayer(m), ociLayer(m)} })},
		"an index": {want: `refused, other format: its media type is "application/vnd.oci.image.index.v1+json"`,
			tamper: func(t *testing.T, repository string) {
				p.put(t, repository, "1.0.0", []byte(`{"schemaVersion": 2, "manifests": [],
					"mediaType": "application/vnd.oci.image.index.v1+json"}`))
			}},
		"an older version under its tag": {from: "2.0.0",
			want:   "refused, other name: the tag is 2.0.0, and the plugin's version 1.0.0",
			tamper: func(t *testing.T, repository string) { p.replaceTag(t, repository, "2.0.0", "1.0.0") }},
		"another name": {want: "refused, other name: the repository is ", tamper: changed(func(m map[string]any) {
			m["annotations"].(map[string]any)["org.opencontainers.image.title"] = "other"
		})},
		"no name": {want: "refused, other name: the manifest in the registry names no plugin",
			tamper: changed(func(m map[string]any) { delete(m, "annotations") })},
		"another version": {want: "refused, other name: it is probe@3.0.0, and signed as probe@1.0.0", from: "latest",
			tamper: func(t *testing.T, repository string) {
				p.replaceTag(t, repository, "latest", "1.0.0")
				p.replace(t, repository, "latest", func(m map[string]any) {
					m["annotations"].(map[string]any)["org.opencontainers.image.version"] = "3.0.0"
				})
			}},
		"a tag that went back": {file: &newer, from: "latest", want: "refused, downgraded: probe@2.0.0 is known " +
			"here, and the tag names 1.0.0. To pull the older one all the same, name it by its digest: ",
			tamper: func(t *testing.T, repository string) { p.replaceTag(t, repository, "latest", "1.0.0") }},
		"an older version by its digest": {file: &newer, from: "digest"},
		"no signature": {want: "refused, unsigned: probe@1.0.0 has no signature",
			tamper: func(t *testing.T, repository string) {
				subject, _ := p.tagged(t, repository, "1.0.0")
				expect.NoError(t, os.RemoveAll(filepath.Join(p.folder(repository), "_manifests/tags",
					strings.ReplaceAll(subject, ":", "-"))))
			}},
		"an untrusted key": {trust: p.trusting(t),
			want: "refused, untrusted key: it is signed by key ana, which the trust file does not list"},
		"a host's key": {trust: p.trusting(t, hosts),
			want: "refused, untrusted key: it is signed by key ana, a host's, which may not sign plugins"},
		"a revoked key": {trust: p.trusting(t, former),
			want: "refused, revoked key: key ana signed it, which the trust file lists as former"},
	} {
		t.Run(name, func(t *testing.T) { // one after the other: blobs are shared by all repositories
			repository := strings.ReplaceAll(strings.ReplaceAll(name, " ", "-"), "'", "") + "/probe"
			expect.NoError(t, os.CopyFS(p.folder(repository), os.DirFS(p.folder("clean/probe"))))
			subject, _ := p.tagged(t, repository, "1.0.0")
			if test.tamper != nil {
				test.tamper(t, repository)
			}
			reference := p.address + "/" + repository + ":1.0.0"
			if test.from == "digest" {
				reference = p.address + "/" + repository + "@" + subject
			} else if test.from != "" {
				reference = p.address + "/" + repository + ":" + test.from
			}
			out := filepath.Join(t.TempDir(), "probe.wasm")
			if test.file != nil {
				expect.NoError(t, os.WriteFile(out, test.file.Wasm, 0o600))
			}
			trust := cmp.Or(test.trust, p.trust)
			if test.want == "" {
				p.does(t, 0, trust, "pull", reference, "-o", out)
				hosttest.Has(t, hosttest.Runs(t, 0, "plugin", "verify", out, "--trust-file", trust),
					"signed by ana (publisher)")
				return
			}
			before, _ := os.ReadFile(out)
			hosttest.Has(t, p.does(t, 1, trust, "pull", reference, "-o", out), test.want)
			after, _ := os.ReadFile(out)
			expect.That(t, bytes.Equal(before, after), "the file was written")
		})
	}
}

// TestPushRefusals pushes plugins that no trusted key signed, and to references that do not match.
func TestPushRefusals(t *testing.T) {
	t.Parallel()
	p := newPublisher(t, true)
	file, to := p.write(t, emptyPlugin(t, "probe", "1.0.0")), p.address+"/team/probe"
	unsigned := hosttest.WriteFile(t, "probe.wasm", emptyPlugin(t, "probe", "1.0.0").Wasm)
	other := p.write(t, emptyPlugin(t, "other", "1.0.0"))
	data := t.TempDir() // without an operator's key
	for name, test := range map[string]struct {
		args []string
		want string
	}{
		"unsigned": {[]string{unsigned, to, "--data-dir", data},
			"refused, unsigned: probe@1.0.0 has no signature"},
		"swapped":       {[]string{file, to, "--signature", other + ".sig"}, "refused, swapped: it is probe@1.0.0"},
		"another name":  {[]string{other, to}, "refused, other name: the repository is team/probe"},
		"another tag":   {[]string{file, to + ":1.0.1"}, "refused, other name: the tag is 1.0.1"},
		"a digest":      {[]string{file, to + "@" + registry.Digest{}.String()}, "give a tag"},
		"no repository": {[]string{file, "probe"}, "is not a reference such as"},
	} {
		t.Run(name, func(t *testing.T) {
			hosttest.Has(t, p.does(t, 1, p.trust, slices.Concat([]string{"push"}, test.args)...), test.want)
		})
	}
	anonymous := []string{"plugin", "push", file, to, "--trust-file", p.trust}
	hosttest.Has(t, hosttest.Runs(t, 1, anonymous...), "certificate signed by unknown authority")
	hosttest.Has(t, hosttest.Runs(t, 1, append(anonymous, "--ca", p.ca)...), "basic credential not found")
	pushed := p.does(t, 0, p.trust, "push", file, to)
	hosttest.Has(t, pushed, to+":1.0.0, sha256:", "Pushed probe@1.0.0, sha256:", "signed by ana")
	expect.Equal(t, "pushed again", p.does(t, 0, p.trust, "push", file, to+":1.0.0"), pushed)
	changed := expect.Value(registry.OpenModule(append(emptyPlugin(t, "probe", "1.0.0").Wasm, 0, 2, 1, 'x')))(t)
	hosttest.Has(t, p.does(t, 1, p.trust, "push", p.write(t, changed), to), "raise the version in the manifest")
	p.does(t, 0, p.trust, "push", file, to+":latest")
}

// TestPlainRegistry pushes to a registry on this machine that has no TLS, and pulls from it.
func TestPlainRegistry(t *testing.T) {
	t.Parallel()
	p, m := newPublisher(t, false), emptyPlugin(t, "probe", "1.0.0")
	for _, flags := range [][]string{{}, {"--plain-http"}} {
		flags = slices.Concat(flags, p.flags, []string{"--trust-file", p.trust})
		reference, out := p.address+"/team/probe:1.0.0", filepath.Join(t.TempDir(), "probe.wasm")
		pushed := runsJSON[pluginLine](t, append([]string{"plugin", "push", p.write(t, m), reference}, flags...)...)
		pulled := runsJSON[pluginLine](t, append([]string{"plugin", "pull", reference, "-o", out}, flags...)...)
		for _, line := range []pluginLine{pushed, pulled} {
			expect.That(t, line.Plugin == m.Ref() && line.Digest == m.Digest.String() && line.SignedBy == "ana" &&
				line.Reference == reference && line.Manifest != "" && line.Manifest == pushed.Manifest,
				"pushed %+v, pulled %+v", pushed, pulled)
		}
	}
}

// TestPublishAsDocumented runs the commands of docs/layers.md with which an author publishes a layer, on a registry in
// place of registry.example. An operator lists the author's key and pulls the layer.
func TestPublishAsDocumented(t *testing.T) {
	t.Parallel()
	r, a := newRegistry(t, true), hosttest.NewAuthor(t)
	_, page, _ := strings.Cut(hosttest.ReadText(t, "../../../docs/layers.md"), "## Publish for other installations\n")
	_, commands, _ := strings.Cut(page, "```sh\n")
	commands, _, _ = strings.Cut(commands, "```\n")
	key, commands, _ := strings.Cut(strings.ReplaceAll(commands, "registry.example", r.address), "\n")
	out, err := a.Run(t, "", "assay plugin new long-numbers --lang c && assay plugin build long-numbers")
	if err != nil {
		if strings.Contains(out, " was not found: ") {
			t.Skip(out)
		}
		t.Fatal(out)
	}
	trust := filepath.Join(a.Folder, "long-numbers", "trust")
	line := a.Must(t, "long-numbers", key)
	expect.NoError(t, os.WriteFile(trust, []byte("operator "+testKey(t, "ona", 2).Verifier+"\n"+line), 0o600))
	login := fmt.Sprintf(`{"auths": {%q: {"auth": "YW5hOnNlY3JldA=="}}}`, r.address)
	expect.NoError(t, os.WriteFile(filepath.Join(a.Folder, "config.json"), []byte(login), 0o600))
	hosttest.Has(t, a.Must(t, "long-numbers", "export DOCKER_CONFIG=.. SSL_CERT_FILE="+r.ca+"\nset -e\n"+commands),
		"signed by ana (publisher)", "Pushed long-numbers@0.1.0", r.address+"/team/long-numbers:0.1.0, sha256:")
	pulled := slices.Concat([]string{"plugin", "pull", r.address + "/team/long-numbers:0.1.0", "-o",
		filepath.Join(t.TempDir(), "pulled.wasm"), "--trust-file", trust}, r.flags)
	hosttest.Has(t, hosttest.Runs(t, 0, pulled...), "long-numbers@0.1.0, sha256:", "signed by ana")
}

// TestPluginTravels signs a plugin with a new key, pushes it with the credentials of docker's configuration, and pulls
// it into an installation, which runs it until it is revoked.
func TestPluginTravels(t *testing.T) {
	t.Parallel()
	p := newPublisher(t, true)
	dir, database := hosttest.DataDir(t), postgrestest.Database(t)
	trust := filepath.Join(dir, "trust")
	listed := expect.Value(os.ReadFile(trust))(t)
	list := func(line string) {
		t.Helper()
		listed = append(listed, line...)
		expect.NoError(t, os.Remove(trust)) // the file is a hard link, and other tests use it
		expect.NoError(t, os.WriteFile(trust, listed, 0o600))
	}
	docker := t.TempDir()
	expect.NoError(t, os.WriteFile(filepath.Join(docker, "config.json"), fmt.Appendf(nil,
		`{"auths": {%q: {"auth": %q}}}`, p.address, base64.StdEncoding.EncodeToString([]byte("ana:secret"))), 0o600))
	assay := func(want string, args ...string) {
		t.Helper()
		cmd := hosttest.Command(t.Context(), dir, database, args...)
		cmd.Env = append(cmd.Env, "DOCKER_CONFIG="+docker)
		out, err := cmd.CombinedOutput()
		expect.Must(t, (err != nil) == strings.HasPrefix(want, "refused") && strings.Contains(string(out), want),
			"assay %s: %v, want %q\n%s", strings.Join(args, " "), err, want, out)
	}
	m := emptyPlugin(t, "probe", "1.0.0")
	file := hosttest.WriteFile(t, "probe.wasm", m.Wasm)
	key, reference := filepath.Join(t.TempDir(), "key"), p.address+"/probe"
	list(hosttest.Output(t, dir, database, "plugin", "key", key, "--name", "eli"))
	assay("signed by eli", "plugin", "sign", file, "--key", key)
	assay("\nSigned by eli (publisher).\n", "plugin", "inspect", file)
	assay("signed by eli", "plugin", "push", file, reference, "--ca", p.ca)
	assay("Published probe@1.0.0", "plugin", "pull", reference+":1.0.0", "--ca", p.ca)
	signed := expect.Value(hosttest.OpenStore(t, dir, database).Store.PluginNotes(t.Context(), m.Digest))(t)
	got, err := release.Recorded(expect.Value(activation.ParseTrust(string(listed)))(t), signed[registry.NoteSignature])
	expect.That(t, err == nil && got.Key == "eli" && got.Release == release.Of(m), "stored: %+v, %v", got, err)
	assay("signed by eli", "plugin", "push", hosttest.WriteFile(t, "probe.wasm", m.Wasm)) // keeps the publisher's
	another := filepath.Join(t.TempDir(), "key")
	list(hosttest.Output(t, dir, database, "plugin", "key", another, "--name", "bob"))
	pushed := func(want, name, version, key string) {
		t.Helper()
		file := hosttest.WriteFile(t, "other.wasm", emptyPlugin(t, name, version).Wasm)
		assay("signed by", "plugin", "sign", file, "--key", key)
		assay(want, "plugin", "push", file)
	}
	pushed("refused, other owner: the name probe belongs to eli+", "probe", "1.1.0", another)
	pushed("refused, other owner: the name domain belongs to release; an operator", "domain", "9.6.0", another)
	assay("The name probe belongs to eli+", "plugin", "inspect", m.Ref())
	assay("The name probe belongs to bob now.", "plugin", "transfer", "probe", "--to", "bob")
	assay("An operator gave the name probe to bob+", "plugin", "inspect", m.Ref())
	pushed("Published probe@1.1.0", "probe", "1.1.0", another)
	pushed("refused, other owner: the name probe belongs to bob+", "probe", "1.2.0", key)
	base := hosttest.OutputJSON[registry.LineupRevision](t, dir, database, "lineup", "show").Lineup
	base.Layers = append(base.Layers, registry.LineupLayer{Layer: m.Ref(), Weight: registry.ForAll(1), Mode: "shadow"})
	assay("Revision 2 is stored", "lineup", "set", hosttest.WriteJSON(t, base))
	assay("chain", "audit", "verify")
	list("revoked " + m.Digest.String() + "\n")
	base = hosttest.OutputJSON[registry.LineupRevision](t, dir, database, "lineup", "show").Lineup
	assay("refused, revoked plugin: the trust file revokes probe@1.0.0", "lineup", "set",
		hosttest.WriteJSON(t, hosttest.Variant(base, 3)))
	assay("refused, revoked plugin", "plugin", "pull", reference+":1.0.0", "--ca", p.ca)
	assay("refused, revoked plugin", "plugin", "push", file)
	assay("\nSignature: refused, revoked plugin: the trust file revokes probe@1.0.0", "plugin", "inspect", m.Ref())
	assay("Revision 1 is stored", "lineup", "rollback")
	assay("refused, revoked plugin", "lineup", "rollback")
}
