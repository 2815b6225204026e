package keyring_test

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"assay/host/access/keyring"
	"assay/registry/expect"
)

var change = time.Date(2026, 1, 2, 0, 0, 0, 0, time.UTC)

// at returns the keys of a file on a host whose clock is at a time.
func at(t *testing.T, path string, now time.Time) *keyring.Ring {
	t.Helper()
	ring := load(t, path)
	ring.Now = func() time.Time { return now }
	return ring
}

// sealings encrypt with each cipher, and decrypt.
var sealings = map[string]struct {
	seal func(r *keyring.Ring) []byte
	open func(r *keyring.Ring, sealed []byte) ([]byte, error)
}{
	"value": {func(r *keyring.Ring) []byte { return r.Seal([]byte("plain"), "id") },
		func(r *keyring.Ring, sealed []byte) ([]byte, error) { return r.Open(sealed, "id") }},
	"node": {func(r *keyring.Ring) []byte { return r.SealNode([]byte("plain"), "id") },
		func(r *keyring.Ring, sealed []byte) ([]byte, error) { return r.OpenNode(sealed, "id") }},
	"contribution": {func(r *keyring.Ring) []byte { return r.SealContribution([]byte("plain")) },
		func(r *keyring.Ring, sealed []byte) ([]byte, error) { return r.OpenContribution(sealed) }},
	"answer": {func(r *keyring.Ring) []byte {
		sealed, _ := r.SealAnswer([]byte("plain"), []byte("request"), "id")
		return sealed
	}, func(r *keyring.Ring, sealed []byte) ([]byte, error) {
		return r.OpenAnswer(sealed, []byte("request"), "id")
	}},
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
		early, late := s.seal(before), s.seal(after)
		altered := bytes.Clone(late)
		altered[len(altered)-1] ^= 1
		for what, test := range map[string]struct {
			ring   *keyring.Ring
			sealed []byte
			opens  bool
		}{
			"of an old file":                       {old, s.seal(old), true},
			"of an old file, with the new":         {after, s.seal(old), true},
			"of the new file, before, with an old": {old, early, true},
			"of the new file, before":              {after, early, true},
			"of the new file":                      {after, late, true},
			"of the new file, by a slow clock":     {before, late, true},
			"of the new file, with an old":         {old, late, false},
			"altered":                              {after, altered, false},
			"without its prefix":                   {after, late[4:], false},
		} {
			plain, err := s.open(test.ring, test.sealed)
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
	ring := load(t, file)
	g := ring.Generations()
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
