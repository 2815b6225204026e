package keyring_test

import (
	"bytes"
	"crypto/aes"
	"crypto/cipher"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"assay/host/access/keyring"
	"assay/registry/expect"
)

// The keys of the master secret with the bytes 0 to 31, computed by an independent HKDF-SHA256 (RFC 5869, Python's
// hmac). They must never change, because stored data depends on them.
const fixedMaster = "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8="

var fixedKeys = map[string]string{
	"pseudonym":    "0f30ab1ba545fcb1ff5d48e13cd7692e6d3ffa0f1331a384cb36476c1995850e",
	"graph":        "1028497a90076ad05b151d14ca462e2564e64fb0cc4329e648f5a46570aeeb12",
	"client":       "f867bf9277998c1e651d77934bf6fb217a8adfd7113e29b761f8c760d95faf0f",
	"cache":        "1764d71164c411efc7bc8f545d52f2cfe10cdc4ded3866ffcfd54b3f31e8cb09",
	"sign":         "c1e044a55cbeb43f9be7ec7b7b55e0adb7439ce3cf44c2f136c7002540d28902",
	"activation":   "d3ab11617f9f9df3f5806e3b79c2d8a5a84401e8881372acf0cfea075e19b319",
	"fingerprint":  "f5f663c6d5dbc277890852e06602ed277063c55f148be532f702cf0c625d0343",
	"erased":       "ad04ca3f5a32d938f4bcfcda88379bd10a4dd9cb66047607c68b63c167b21719",
	"node":         "fb5c2496388c94a6a05e9a6a4fa2190b28c3b2cc46b465ef80d4d0b66e2f9c17",
	"contribution": "6d645ab008e0a05d8970d9603e661d004e241a1f999d5938c120354941ef9c13",
	"answer":       "9588c652a71cd2780adc27d996698aab40b755f2be1c6ca088c8f0a31775ff6b",
	"seal":         "b6325eef0cfa061136ecba2a34ce7fbbca7a5197a19b0686244225ca564cb455",
}

func keysOf(r *keyring.Ring) map[string][]byte {
	return map[string][]byte{
		"pseudonym": r.Pseudonym, "graph": r.Graph, "client": r.Client, "cache": r.Cache, "sign": r.SignSeed,
		"activation": r.Generations()[0].Activation, "fingerprint": r.Fingerprint, "erased": r.Erased,
		"answer": r.Answer,
	}
}

func write(t *testing.T, text string, mode fs.FileMode) (path string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "secret")
	expect.NoError(t, os.WriteFile(path, []byte(text), 0o600))
	expect.NoError(t, os.Chmod(path, mode)) // WriteFile applies the umask
	return path
}

func load(t *testing.T, path string) *keyring.Ring {
	t.Helper()
	return expect.Value(keyring.Load(path))(t)
}

func create(t *testing.T, path string) *keyring.Ring {
	t.Helper()
	return expect.Value(keyring.Create(path))(t)
}

func TestLoadCreatesNothing(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for name, path := range map[string]string{"no file": filepath.Join(dir, "secret"),
		"no folder": filepath.Join(dir, "missing", "secret")} {
		expect.Error(t, name+": Load", expect.ErrorOf(keyring.Load(path)), fs.ErrNotExist)
	}
	entries, err := os.ReadDir(dir)
	expect.That(t, err == nil && len(entries) == 0, "Load left %v, %v", entries, err)
}

func TestDerivedKeys(t *testing.T) {
	t.Parallel()
	seen := map[string]string{}
	for name, key := range keysOf(load(t, write(t, fixedMaster, 0o600))) {
		got := hex.EncodeToString(key)
		expect.Equal(t, "the key for "+name, got, fixedKeys[name])
		other, ok := seen[got]
		expect.That(t, !ok && got != hex.EncodeToString(make([]byte, 32)), "%s and %s are equal or zero", name, other)
		seen[got] = name
	}
	for name, key := range keysOf(create(t, filepath.Join(t.TempDir(), "new"))) {
		expect.That(t, hex.EncodeToString(key) != fixedKeys[name], "the %s key does not depend on the master secret",
			name)
	}
}

func TestConcurrentStartsCreateOneSecret(t *testing.T) {
	t.Parallel()
	const hosts, rounds = 16, 5
	created := map[string]bool{}
	for range rounds {
		dir := filepath.Join(t.TempDir(), "data") // does not exist either
		path := filepath.Join(dir, "secret")
		rings := make([]*keyring.Ring, hosts)
		errs := make([]error, hosts+1)
		start := make(chan struct{})
		var wg sync.WaitGroup
		for i := range hosts {
			wg.Go(func() {
				<-start
				rings[i], errs[i] = keyring.Create(path)
			})
		}
		close(start)
		wg.Wait()
		for i, ring := range append(rings, load(t, path)) {
			expect.NoError(t, errs[i])
			expect.Must(t, bytes.Equal(ring.Fingerprint, rings[0].Fingerprint),
				"hosts or the file have different secrets")
		}
		created[string(rings[0].Fingerprint)] = true
		for name, want := range map[string]fs.FileMode{dir: 0o700, path: 0o600} { // only the owner has access
			expect.Equal(t, "the mode of "+filepath.Base(name), expect.Value(os.Stat(name))(t).Mode().Perm(), want)
		}
		expect.Equal(t, "files in the folder", len(expect.Value(os.ReadDir(dir))(t)), 1)
	}
	expect.Equal(t, "different secrets", len(created), rounds)
}

func TestLoadValidatesTheFile(t *testing.T) {
	t.Parallel()
	bytesOf := func(n int) string { return base64.StdEncoding.EncodeToString(bytes.Repeat([]byte{0xfb}, n)) }
	type testCase struct {
		text    string
		mode    fs.FileMode
		wantErr string // part of the error; "" if Load succeeds
	}
	expect.Each(t, map[string]testCase{
		"as created":                {fixedMaster + "\n", 0o600, ""},
		"without a newline":         {fixedMaster, 0o600, ""},
		"surrounded by white space": {" \t" + fixedMaster + "\r\n\n", 0o600, ""},
		"read only":                 {fixedMaster, 0o400, ""},
		"readable by the group":     {fixedMaster, 0o640, "640"},
		"writable by all":           {fixedMaster, 0o602, "602"},
		"empty":                     {"", 0o600, "32 bytes in base64"},
		"one byte short":            {bytesOf(31), 0o600, "32 bytes in base64"},
		"one byte long":             {bytesOf(33), 0o600, "32 bytes in base64"},
		"URL base64":                {strings.ReplaceAll(bytesOf(32), "+", "-"), 0o600, "32 bytes in base64"},
		"not base64":                {strings.Repeat("*", 44), 0o600, "32 bytes in base64"},
	}, func(t *testing.T, c testCase) {
		path := write(t, c.text, c.mode)
		ring, err := keyring.Load(path)
		if err == nil {
			expect.Equal(t, "fingerprint", hex.EncodeToString(ring.Fingerprint), fixedKeys["fingerprint"])
		} else {
			err = errors.New(strings.ReplaceAll(err.Error(), path, "")) // which contains random digits
			expect.That(t, len(c.text) <= 8 || !strings.Contains(err.Error(), c.text[:8]), "%q has the secret", err)
		}
		expect.Outcome(t, "Load", err, c.wantErr)
		expect.Equal(t, "the file afterwards", string(expect.Value(os.ReadFile(path))(t)), c.text)
	})
}

func TestUnusablePaths(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file := write(t, fixedMaster, 0o600)
	dangling := filepath.Join(dir, "link")
	expect.NoError(t, os.Symlink(filepath.Join(dir, "nowhere"), dangling))
	for name, path := range map[string]string{
		"a folder": dir, "below a file": filepath.Join(file, "secret"), "a dangling link": dangling,
	} {
		_, err := keyring.Create(path)
		expect.That(t, err != nil && strings.HasPrefix(err.Error(), "reading secret file: "), "%s: %v", name, err)
	}
}

// sealings encrypt with each cipher, and decrypt.
var sealings = map[string]struct {
	seal func(r *keyring.Ring, plain []byte, context string) []byte
	open func(r *keyring.Ring, sealed []byte, context string) ([]byte, error)
}{
	"seal": {(*keyring.Ring).Seal, (*keyring.Ring).Open},
	"node": {(*keyring.Ring).SealNode, (*keyring.Ring).OpenNode},
	"contribution": {func(r *keyring.Ring, plain []byte, _ string) []byte { return r.SealContribution(plain) },
		func(r *keyring.Ring, sealed []byte, _ string) ([]byte, error) { return r.OpenContribution(sealed) }},
	"answer": {func(r *keyring.Ring, plain []byte, context string) []byte {
		sealed, _ := r.SealAnswer(plain, []byte("the request"), context)
		return sealed
	}, func(r *keyring.Ring, sealed []byte, context string) ([]byte, error) {
		return r.OpenAnswer(sealed, []byte("the request"), context)
	}},
}

// A sealed value opens with the ring, the context and, for an answer, the request that it was sealed with.
func TestSealAndOpen(t *testing.T) {
	t.Parallel()
	ring, other := load(t, write(t, fixedMaster, 0o600)), create(t, filepath.Join(t.TempDir(), "secret"))
	for name, s := range sealings {
		for _, plain := range []string{"whsec_0123456789", "", strings.Repeat("\x00\xff", 8),
			strings.Repeat("x", 10_000)} {
			sealed := s.seal(ring, []byte(plain), "hook_1")
			got, err := s.open(ring, sealed, "hook_1")
			expect.That(t, err == nil && string(got) == plain, "%s: opened as %q, %v; want %q", name, got, err, plain)
			expect.That(t, plain == "" || !bytes.Contains(sealed, []byte(plain)) && !bytes.Contains(sealed,
				[]byte("request")), "%s: the sealed value shows what is in it", name)
			expect.That(t, !bytes.Equal(sealed, s.seal(ring, []byte(plain), "hook_1")),
				"%s: two sealed values are equal: the nonce is not random", name)
			fails := func(what string, by *keyring.Ring, sealed []byte, context string) {
				expect.Failure(t, expect.ErrorOf(s.open(by, sealed, context)), "%s: opened %s", name, what)
			}
			fails("with another secret", other, sealed, "hook_1")
			for _, context := range []string{"hook_2", "", "hook_1 "} {
				if name != "contribution" { // it has none
					fails("with the context "+context, ring, sealed, context)
				}
			}
			for i := range min(len(sealed), 64) {
				altered := bytes.Clone(sealed)
				altered[i] ^= 1
				fails(fmt.Sprintf("with byte %d altered", i), ring, altered, "hook_1")
				fails(fmt.Sprintf("after %d bytes", i), ring, sealed[:i], "hook_1")
			}
			fails("with another byte", ring, append(bytes.Clone(sealed), 0), "hook_1")
		}
	}
	sealed := sealings["answer"].seal(ring, []byte("the answer"), "context")
	for request, context := range map[string]string{"the request ": "context", "tthe request": "contex",
		"": "context"} {
		expect.Failure(t, expect.ErrorOf(ring.OpenAnswer(sealed, []byte(request), context)),
			"an answer opens with the request %q", request)
	}
}

// The format is AES-256-GCM with the derived key and a leading nonce of 12 bytes, which other programs can open.
func TestSealIsPlainGCM(t *testing.T) {
	t.Parallel()
	ring := load(t, write(t, fixedMaster, 0o600))
	for name, additional := range map[string]string{"seal": "context", "node": "context", "contribution": ""} {
		block := expect.Value(aes.NewCipher(expect.Value(hex.DecodeString(fixedKeys[name]))(t)))(t)
		gcm := expect.Value(cipher.NewGCM(block))(t)
		sealed := sealings[name].seal(ring, []byte("plain"), "context")
		got, err := gcm.Open(nil, sealed[:gcm.NonceSize()], sealed[gcm.NonceSize():], []byte(additional))
		expect.That(t, err == nil && string(got) == "plain", "%s: opened as %q, %v", name, got, err)
	}
	expect.Failure(t, expect.ErrorOf(ring.OpenNode(ring.SealContribution(nil), "")), "OpenNode opens a contribution")
}

var change = time.Date(2026, 1, 2, 0, 0, 0, 0, time.UTC)

// at returns the keys of a file on a host whose clock is at a time.
func at(t *testing.T, path string, now time.Time) *keyring.Ring {
	t.Helper()
	ring := load(t, path)
	ring.Now = func() time.Time { return now }
	return ring
}

// Hosts with a new file and hosts with the old one read each other's values until the new keys are in use, and
// afterwards those with the new file go on reading the old values.
func TestGenerations(t *testing.T) {
	t.Parallel()
	file := write(t, fixedMaster, 0o600)
	old := load(t, file)
	expect.NoError(t, keyring.AddGeneration(file, change))
	before, after := at(t, file, change.Add(-time.Second)), at(t, file, change)
	for name, s := range sealings {
		seal := func(r *keyring.Ring) []byte { return s.seal(r, []byte("plain"), "id") }
		early, late := seal(before), seal(after)
		altered := bytes.Clone(late)
		altered[len(altered)-1] ^= 1
		for what, test := range map[string]struct {
			ring   *keyring.Ring
			sealed []byte
			opens  bool
		}{
			"of an old file":                       {old, seal(old), true},
			"of an old file, with the new":         {after, seal(old), true},
			"of the new file, before, with an old": {old, early, true},
			"of the new file, before":              {after, early, true},
			"of the new file":                      {after, late, true},
			"of the new file, by a slow clock":     {before, late, true},
			"of the new file, with an old":         {old, late, false},
			"altered":                              {after, altered, false},
			"without its prefix":                   {after, late[4:], false},
		} {
			plain, err := s.open(test.ring, test.sealed, "id")
			expect.That(t, (err == nil) == test.opens && (!test.opens || string(plain) == "plain"), "%s %s: %q, %v",
				name, what, plain, err)
		}
		expect.That(t, bytes.HasPrefix(late, after.Current().Prefix) && len(late) == len(early)+4, "%s: no prefix",
			name)
	}
	for name, key := range keysOf(after) {
		expect.That(t, bytes.Equal(key, keysOf(old)[name]), "the %s key changed", name)
	}
	first, second := after.Generations()[0], after.Current()
	for name, keys := range map[string][2][]byte{"sign": {first.SignSeed, second.SignSeed},
		"activation": {first.Activation, second.Activation}} {
		expect.That(t, !bytes.Equal(keys[0], keys[1]), "the %s key did not change", name)
	}
	info, err := os.Stat(file)
	expect.That(t, err == nil && info.Mode().Perm() == 0o600, "the changed file: %v, %v", info, err)
}

func TestRemoveGeneration(t *testing.T) {
	t.Parallel()
	file := write(t, fixedMaster, 0o600)
	link := filepath.Join(t.TempDir(), "link")
	expect.NoError(t, os.Symlink(file, link))
	for _, from := range []time.Time{change, change.Add(time.Hour)} {
		expect.NoError(t, keyring.AddGeneration(link, from))
	}
	for number, reason := range map[int]string{1: "pseudonyms", 3: "the last", 4: "no generation 4"} {
		expect.ErrorText(t, fmt.Sprintf("removing %d", number), keyring.RemoveGeneration(file, number), reason)
	}
	expect.ErrorText(t, "adding an earlier one", keyring.AddGeneration(file, change), "before that")
	expect.NoError(t, keyring.RemoveGeneration(file, 2))
	g := load(t, file).Generations()
	expect.That(t, len(g) == 2 && g[1].Number == 3 && g[1].From.Equal(change.Add(time.Hour)), "left: %+v", g)
}

func TestMalformedGenerations(t *testing.T) {
	t.Parallel()
	secret := base64.StdEncoding.EncodeToString(bytes.Repeat([]byte{0xfb}, 32))
	for name, lines := range map[string]string{
		"no number":        secret + " 2026-01-02T00:00:00Z",
		"no time":          "2 " + secret,
		"a wrong time":     "2 " + secret + " 2026-01-02",
		"the number 1":     "1 " + secret + " 2026-01-02T00:00:00Z",
		"a short secret":   "2 " + secret[4:] + " 2026-01-02T00:00:00Z",
		"out of order":     "3 " + secret + " 2026-01-02T00:00:00Z\n2 " + secret + " 2026-01-03T00:00:00Z",
		"earlier":          "2 " + secret + " 2026-01-02T00:00:00Z\n3 " + secret + " 2026-01-01T00:00:00Z",
		"a field too many": "2 " + secret + " 2026-01-02T00:00:00Z x",
	} {
		_, err := keyring.Load(write(t, fixedMaster+"\n"+lines+"\n", 0o600))
		expect.ErrorText(t, name, err, "bytes in base64 and a time")
		expect.That(t, err == nil || !strings.Contains(err.Error(), secret), "%s: the error contains the secret: %v",
			name, err)
	}
}
