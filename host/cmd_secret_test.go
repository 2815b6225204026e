package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"assay/host/apikey"
	"assay/host/audit"
	"assay/host/auditlog"
	"assay/host/postgres/postgrestest"
	"assay/host/store/storetest"
	"assay/registry/activation"
)

// ownSecrets returns a data directory with copies of the files of another one, as on a second host.
func ownSecrets(t *testing.T, from string) string {
	t.Helper()
	dir := t.TempDir()
	for _, name := range []string{"secret", "trust", "operator.key"} {
		text := storetest.Must(os.ReadFile(filepath.Join(from, name)))(t)
		storetest.NoError(t, os.WriteFile(filepath.Join(dir, name), text, 0o600))
	}
	return dir
}

// TestSecretRotation adds a generation to the secret of one of three hosts and copies it to another. All read each
// other's values until it is in use; then the two go on, and the third says what it lacks.
func TestSecretRotation(t *testing.T) {
	t.Parallel()
	database, first := postgrestest.Database(t), ownSecrets(t, dataDir(t))
	stale := openStore(t, first, database)
	third := ownSecrets(t, first)
	if out := output(t, first, database, "secret", "rotate", "--in=1h"); !strings.Contains(out, "Generation 2") {
		t.Errorf("it printed %q", out)
	}
	a, b := openStore(t, first, database), openStore(t, ownSecrets(t, first), database)
	old := openStore(t, third, database)
	open := func(by, sealed *backend) error {
		_, err := by.keys.Open(sealed.keys.Seal([]byte("x"), "id"), "id")
		return err
	}
	for _, by := range []*backend{a, b, old} {
		for _, other := range []*backend{a, b, old} {
			storetest.NoError(t, open(by, other))
		}
		storetest.NoError(t, by.store.Signer().Ready(audit.Checkpoints|audit.Records))
	}
	storetest.NoError(t, stale.store.LearnKeys(t.Context())) // as a host does that runs meanwhile

	later := func() time.Time { return time.Now().Add(2 * time.Hour) }
	for _, h := range []*backend{a, b, old, stale} {
		h.keys.Now, h.store.Signer().Now = later, later
	}
	storetest.NoError(t, open(a, b))
	storetest.NoError(t, open(a, old))
	if open(old, a) == nil {
		t.Error("a host without the new secret reads its values")
	}
	for _, h := range []*backend{old, stale} {
		storetest.WantError(t, "a host without the new secret", h.store.Signer().Ready(audit.Records),
			audit.ErrKeyElsewhere)
		if len(keyElsewhere(h.store.Signer())) != 1 {
			t.Error("the operator's page does not say so")
		}
	}
	head := audit.TreeHead{Size: 3}
	signed := storetest.Must(a.store.Signer().SignTree(head))(t)
	if signed != storetest.Must(b.store.Signer().SignTree(head))(t) {
		t.Error("two hosts sign the same tree with different keys")
	}
	before := audit.NewSigner(audit.KeyName, a.keys.SignSeed)
	if _, err := before.OpenTree(signed); err == nil || a.store.Signer().Origin(0) != before.Origin(0) {
		t.Error("the key did not change, or the origin did")
	}
	trust := storetest.Must(activation.ParseTrust(readText(t, filepath.Join(first, "trust"))))(t)
	for _, h := range []*backend{a, old} { // what either signs is trusted
		key := storetest.Must(h.hostKey())(t)
		note := storetest.Must(activation.Sign(activation.Activation{Number: 1, Lineup: activation.Lineup{Revision: 1},
			Author: "x", Reason: "x", At: time.Now()}, key))(t)
		if by, err := trust.Open(note); err != nil || by.Role != activation.Host {
			t.Errorf("a host's activation: %+v, %v", by, err)
		}
	}
	wantRefusal(t, "another, before", first, database, nil, []string{"secret", "rotate", "--in=0s"},
		"before that of the last generation")
	wantRefusal(t, "one that is not in use", first, database, nil, []string{"secret", "remove", "2"},
		"in use, or will be")
}

// TestSecretRemoval removes a generation once nothing is encrypted under it.
func TestSecretRemoval(t *testing.T) {
	t.Parallel()
	database, dir := postgrestest.Database(t), ownSecrets(t, dataDir(t))
	openStore(t, dir, database)
	output(t, dir, database, "secret", "rotate", "--in=0s")
	account := outputJSON[apikey.Issued](t, dir, database, "keys", "create", "--plan", "pro").Account
	output(t, dir, database, "webhooks", "set", "--account", account, "--url", "https://receiver.example/")
	output(t, dir, database, "secret", "rotate", "--in=0s")
	list := outputJSON[[]generationReport](t, dir, database, "secret", "list")
	if len(list) != 3 || list[1].State != "former" || list[1].Values["webhook_endpoints"] != 1 ||
		list[2].State != "current" || len(list[2].Values) != 0 {
		t.Errorf("%+v", list)
	}
	remove := []string{"secret", "remove", "2"}
	wantRefusal(t, "one that is needed", dir, database, nil, remove, "webhook_endpoints 1", "secret reseal")
	wantRefusal(t, "the first", dir, database, nil, []string{"secret", "remove", "1"}, "pseudonyms")
	if out := output(t, dir, database, "secret", "reseal"); !strings.HasPrefix(out, "1 values") {
		t.Errorf("reseal printed %q", out)
	}
	output(t, dir, database, remove...)
	if out := output(t, dir, database, "secret", "list"); strings.Contains(out, "former  2") ||
		!strings.Contains(out, "webhook_endpoints 1") {
		t.Errorf("left: %s", out)
	}
	stale := ownSecrets(t, dataDir(t))
	wantRefusal(t, "a command with the old secret", stale, database, nil, []string{"audit", "verify"},
		"copy the secret file of another host")
	// The log is still signed by the newest key, and verified with the first.
	b := openStore(t, dir, database)
	keys := writeFile(t, "keys", []byte(b.store.Signer().TreeKey(0)+"\n"))
	if statements := b.store.Signer().Statements(); len(statements) != 2 {
		t.Errorf("%d statements", len(statements))
	}
	storetest.NoError(t, (&auditlog.Keeper{Store: b.store, Signer: b.store.Signer(),
		Logger: storetest.Discard()}).SignHeads(t.Context()))
	export := filepath.Join(t.TempDir(), "export")
	output(t, dir, database, "audit", "export", export)
	output(t, dir, database, "audit", "verify", "--public-key", keys, "--offline", export)
}
