package plugin

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"assay/host/hosttest"
	"assay/host/store/postgres/postgrestest"
	"assay/host/web/certificate/certificatetest"
	"assay/registry"
	"assay/registry/activation"
	"assay/registry/expect"
	"assay/registry/release"
)

// ociRegistry is Debian's docker-registry on loopback, with TLS and passwords.
type ociRegistry struct {
	address string
	files   string   // below which it stores its content
	flags   []string // that reach it
	ca      string
}

var registryListens = regexp.MustCompile(`listening on ([0-9.:]+)`)

// newRegistry starts a registry, with TLS or without.
func newRegistry(t *testing.T, tls bool) ociRegistry {
	t.Helper()
	program, err := exec.LookPath("docker-registry")
	if err != nil {
		t.Skip("docker-registry is not installed: on Debian, apt-get install docker-registry")
	}
	cert, key := certificatetest.Pair(t, 1, time.Now().Add(-time.Hour), time.Now().Add(time.Hour))
	// The hash is that of "secret", with the lowest cost.
	users := "ana:$2b$04$9NvVYeJ959cy/Fy.Ws7WguCeXaOhz3rb4nyXCc7P4orX85s3p3Mxi\n"
	r := ociRegistry{files: t.TempDir(), ca: hosttest.WriteFile(t, "ca.pem", cert)}
	http := map[string]any{"addr": "127.0.0.1:0"}
	if tls {
		http["tls"] = map[string]any{"certificate": r.ca, "key": hosttest.WriteFile(t, "key.pem", key)}
	}
	config := hosttest.WriteFile(t, "registry.json", expect.Value(json.Marshal(map[string]any{"version": "0.1",
		"log": map[string]any{"level": "info"}, "http": http,
		"storage": map[string]any{"filesystem": map[string]any{"rootdirectory": r.files}},
		"auth": map[string]any{"htpasswd": map[string]any{"realm": "test",
			"path": hosttest.WriteFile(t, "users", []byte(users))}}}))(t))
	cmd := exec.CommandContext(t.Context(), program, "serve", config)
	log := expect.Value(cmd.StderrPipe())(t)
	expect.NoError(t, cmd.Start())
	lines := bufio.NewScanner(log)
	for lines.Scan() {
		if found := registryListens.FindStringSubmatch(lines.Text()); found != nil {
			r.address = found[1]
			break
		}
	}
	if r.address == "" {
		t.Fatal("docker-registry did not start: ", cmd.Wait())
	}
	ended := make(chan struct{})
	go func() {
		for lines.Scan() { // or it would wait for a reader
		}
		_ = cmd.Wait()
		close(ended)
	}()
	t.Cleanup(func() { _ = cmd.Process.Kill(); <-ended })
	if tls {
		r.flags = []string{"--ca", r.ca}
	}
	r.flags = append(r.flags, "--username", "ana", "--password-file", hosttest.WriteFile(t, "password",
		[]byte("secret\n")))
	return r
}

func TestPasswordThatOthersCanRead(t *testing.T) {
	t.Parallel()
	file := hosttest.WriteFile(t, "password", []byte("secret\n"))
	access := registryAccess{Username: "ana", Password: file}
	expect.Equal(t, "password", expect.Value(access.options())(t).Password, "secret")
	expect.NoError(t, os.Chmod(file, 0o640))
	_, err := access.options()
	expect.ErrorText(t, "a password that a group can read", err, file+" (mode 640): run chmod 600")
}

func (r ociRegistry) blob(digest string) string {
	hexa := strings.TrimPrefix(digest, "sha256:")
	return filepath.Join(r.files, "docker/registry/v2/blobs/sha256", hexa[:2], hexa, "data")
}

// damage changes a blob, which all repositories share, until the end of the test.
func (r ociRegistry) damage(t *testing.T, digest string, change func([]byte) []byte) {
	t.Helper()
	text := expect.Value(os.ReadFile(r.blob(digest)))(t)
	expect.NoError(t, os.WriteFile(r.blob(digest), change(bytes.Clone(text)), 0o600))
	t.Cleanup(func() { expect.NoError(t, os.WriteFile(r.blob(digest), text, 0o600)) })
}

func (r ociRegistry) folder(repository string) string {
	return filepath.Join(r.files, "docker/registry/v2/repositories", repository)
}

func (r ociRegistry) link(t *testing.T, repository, name, digest string) {
	t.Helper()
	file := filepath.Join(r.folder(repository), name, "link")
	expect.NoError(t, os.MkdirAll(filepath.Dir(file), 0o700))
	expect.NoError(t, os.WriteFile(file, []byte(digest), 0o600))
}

// put stores content in a repository, as an attacker with access to the registry's disk can. If tag is not "", the
// content is a manifest.
func (r ociRegistry) put(t *testing.T, repository, tag string, content []byte) (digest string) {
	t.Helper()
	sum := sha256.Sum256(content)
	hexa := hex.EncodeToString(sum[:])
	digest = "sha256:" + hexa
	expect.NoError(t, os.MkdirAll(filepath.Dir(r.blob(digest)), 0o700))
	expect.NoError(t, os.WriteFile(r.blob(digest), content, 0o600))
	if tag == "" {
		r.link(t, repository, "_layers/sha256/"+hexa, digest)
		return digest
	}
	r.link(t, repository, "_manifests/revisions/sha256/"+hexa, digest)
	r.link(t, repository, "_manifests/tags/"+tag+"/current", digest)
	r.link(t, repository, "_manifests/tags/"+tag+"/index/sha256/"+hexa, digest)
	return digest
}

// tagged returns the manifest that a tag names.
func (r ociRegistry) tagged(t *testing.T, repository, tag string) (digest string, manifest map[string]any) {
	t.Helper()
	link := filepath.Join(r.folder(repository), "_manifests/tags", tag, "current/link")
	digest = string(expect.Value(os.ReadFile(link))(t))
	expect.NoError(t, json.Unmarshal(expect.Value(os.ReadFile(r.blob(digest)))(t), &manifest))
	return digest, manifest
}

// ociLayer returns the only layer of a manifest.
func ociLayer(manifest map[string]any) map[string]any {
	return manifest["layers"].([]any)[0].(map[string]any)
}

// replace changes the manifest of a tag. The notes about the old manifest then refer to the new one.
func (r ociRegistry) replace(t *testing.T, repository, tag string, change func(manifest map[string]any)) {
	t.Helper()
	before, manifest := r.tagged(t, repository, tag)
	change(manifest)
	after := r.put(t, repository, tag, expect.Value(json.Marshal(manifest))(t))
	_, notes := r.tagged(t, repository, strings.ReplaceAll(before, ":", "-"))
	r.put(t, repository, strings.ReplaceAll(after, ":", "-"), expect.Value(json.Marshal(notes))(t))
}

// sign replaces the signature of the plugin that a tag names.
func (r ociRegistry) sign(t *testing.T, repository, tag, signature string) {
	t.Helper()
	subject, _ := r.tagged(t, repository, tag)
	list := strings.ReplaceAll(subject, ":", "-")
	_, index := r.tagged(t, repository, list)
	entry := index["manifests"].([]any)[0].(map[string]any)
	var note map[string]any
	expect.NoError(t, json.Unmarshal(expect.Value(os.ReadFile(r.blob(entry["digest"].(string))))(t), &note))
	ociLayer(note)["digest"], ociLayer(note)["size"] = r.put(t, repository, "", []byte(signature)), len(signature)
	text := expect.Value(json.Marshal(note))(t)
	entry["digest"], entry["size"] = r.put(t, repository, "signature", text), len(text)
	r.put(t, repository, list, expect.Value(json.Marshal(index))(t))
}

// signatureOf returns the digest of the signature of the plugin that a tag names.
func (r ociRegistry) signatureOf(t *testing.T, repository, tag string) string {
	t.Helper()
	subject, _ := r.tagged(t, repository, tag)
	_, index := r.tagged(t, repository, strings.ReplaceAll(subject, ":", "-"))
	var note map[string]any
	digest := index["manifests"].([]any)[0].(map[string]any)["digest"].(string)
	expect.NoError(t, json.Unmarshal(expect.Value(os.ReadFile(r.blob(digest)))(t), &note))
	return ociLayer(note)["digest"].(string)
}

// emptyPlugin returns a plugin without signals.
func emptyPlugin(t *testing.T, name, version string) registry.Module {
	t.Helper()
	wasm := expect.Value(registry.Pack([]byte(hosttest.EmptyLayer), fmt.Appendf(nil, `{"name":%q,"version":%q,
		"summary":"Empty","threats":[],"budget_fuel":1000,"memory_mb":1,"default_weight":1,"entities":["domain"],
		"facts":[],"signals":[]}`, name, version), nil))(t)
	return expect.Value(registry.OpenModule(wasm))(t)
}

func testKey(t *testing.T, name string, seed byte) activation.Key {
	t.Helper()
	return expect.Value(activation.NewKey(name, bytes.Repeat([]byte{seed}, 32)))(t)
}

// publisher has a registry, a key to publish plugins there, and the trust file of an operator who pulls them.
type publisher struct {
	ociRegistry
	key   activation.Key
	trust string // file
}

func newPublisher(t *testing.T, tls bool) publisher {
	t.Helper()
	p := publisher{ociRegistry: newRegistry(t, tls), key: testKey(t, "ana", 1)}
	p.trust = p.trusting(t, "publisher "+p.key.Verifier)
	return p
}

// trusting writes a trust file with more lines than that of an operator.
func (p publisher) trusting(t *testing.T, lines ...string) string {
	t.Helper()
	return hosttest.WriteFile(t, "trust", []byte("operator "+testKey(t, "ona", 2).Verifier+"\n"+strings.Join(lines,
		"\n")))
}

// write writes a plugin and its signature.
func (p publisher) write(t *testing.T, m registry.Module) (file string) {
	t.Helper()
	file = filepath.Join(t.TempDir(), m.Manifest.Name+".wasm")
	expect.NoError(t, os.WriteFile(file, m.Wasm, 0o600))
	expect.NoError(t, os.WriteFile(file+".sig", []byte(p.signed(t, m)), 0o600))
	return file
}

func (p publisher) signed(t *testing.T, m registry.Module) string {
	t.Helper()
	return expect.Value(release.Sign(release.Of(m), p.key))(t)
}

// does runs a plugin command with the registry's flags and a trust file, and returns its output.
func (p publisher) does(t *testing.T, code int, trust string, args ...string) string {
	t.Helper()
	return hosttest.Runs(t, code, slices.Concat([]string{"plugin"}, args, p.flags, []string{"--trust-file", trust})...)
}

// TestRegistryRefusals changes what a real registry stores and whom the operator trusts. Each plugin is refused with a
// message that says why.
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
			want: "refused, other name: the tag is 2.0.0, and the plugin's version 1.0.0",
			tamper: func(t *testing.T, repository string) {
				p.replaceTag(t, repository, "2.0.0", "1.0.0")
			}},
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
			trust := test.trust
			if trust == "" {
				trust = p.trust
			}
			if test.want == "" {
				p.does(t, 0, trust, "pull", reference, "-o", out)
				hosttest.Has(t, hosttest.Runs(t, 0, "plugin", "verify", out, "--trust-file", trust),
					"signed by ana (publisher)")
				return
			}
			before, _ := os.ReadFile(out)
			hosttest.Has(t, p.does(t, 1, trust, "pull", reference, "-o", out), test.want)
			if after, _ := os.ReadFile(out); !bytes.Equal(before, after) {
				t.Error("the file was written")
			}
		})
	}
}

// replaceTag points a tag at the manifest of another tag.
func (r ociRegistry) replaceTag(t *testing.T, repository, tag, as string) {
	t.Helper()
	digest, _ := r.tagged(t, repository, as)
	r.put(t, repository, tag, expect.Value(os.ReadFile(r.blob(digest)))(t))
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
	m := emptyPlugin(t, "probe", "1.0.0")
	changed := expect.Value(registry.OpenModule(append(m.Wasm, 0, 2, 1, 'x')))(t)
	hosttest.Has(t, p.does(t, 1, p.trust, "push", p.write(t, changed), to), "raise the version in the manifest")
	p.does(t, 0, p.trust, "push", file, to+":latest")
}

// TestPlainRegistry pushes to a registry on this machine that has no TLS, and pulls from it.
func TestPlainRegistry(t *testing.T) {
	t.Parallel()
	p := newPublisher(t, false)
	m := emptyPlugin(t, "probe", "1.0.0")
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
	with := hosttest.WriteJSON(t, base)
	assay("Revision 2 is stored", "lineup", "set", with)
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
