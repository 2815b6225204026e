package plugin

import (
	"bufio"
	"bytes"
	"crypto/sha256"
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

// put stores content in a repository, as an attacker with access to its disk can: a manifest, if tag is not "".
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
		"summary":"Empty","threats":[],"budget_fuel":1000,"memory_mb":1,"default_weight":1.5,"entities":["domain"],
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

// replaceTag points a tag at the manifest of another tag.
func (r ociRegistry) replaceTag(t *testing.T, repository, tag, as string) {
	t.Helper()
	digest, _ := r.tagged(t, repository, as)
	r.put(t, repository, tag, expect.Value(os.ReadFile(r.blob(digest)))(t))
}
