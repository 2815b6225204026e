package cli

import (
	"path/filepath"
	"strings"
	"testing"
	"time"

	"assay/host/access/apikey"
	"assay/host/audit"
	"assay/host/auditlog"
	"assay/host/hosttest"
	"assay/host/installation"
	"assay/host/server"
	"assay/host/store/postgres/postgrestest"
	"assay/host/store/storetest"
	"assay/registry/activation"
	"assay/registry/expect"
)

// TestSecretRotation adds a generation to the secret of one of three hosts and copies it to another. All read each
// other's values until it is in use; then the two go on, and the third says what it lacks.
func TestSecretRotation(t *testing.T) {
	t.Parallel()
	database, first := postgrestest.Database(t), hosttest.OwnSecrets(t, hosttest.DataDir(t))
	stale := hosttest.OpenStore(t, first, database)
	third := hosttest.OwnSecrets(t, first)
	hosttest.Has(t, hosttest.Output(t, first, database, "secret", "rotate", "--in=1h"), "Generation 2")
	a, b := hosttest.OpenStore(t, first, database), hosttest.OpenStore(t, hosttest.OwnSecrets(t, first), database)
	old := hosttest.OpenStore(t, third, database)
	open := func(by, sealed *installation.Backend) error {
		_, err := by.Keys.Open(sealed.Keys.Seal([]byte("x"), "id"), "id")
		return err
	}
	for _, by := range []*installation.Backend{a, b, old} {
		for _, other := range []*installation.Backend{a, b, old} {
			expect.NoError(t, open(by, other))
		}
		expect.NoError(t, by.Store.Signer().Ready(audit.Checkpoints|audit.Records))
	}
	expect.NoError(t, stale.Store.LearnKeys(t.Context())) // as a host does that runs meanwhile

	later := func() time.Time { return time.Now().Add(2 * time.Hour) }
	for _, h := range []*installation.Backend{a, b, old, stale} {
		h.Keys.Now, h.Store.Signer().Now = later, later
	}
	expect.NoError(t, open(a, b))
	expect.NoError(t, open(a, old))
	expect.That(t, open(old, a) != nil, "a host without the new secret reads its values")
	for _, h := range []*installation.Backend{old, stale} {
		expect.Error(t, "a host without the new secret", h.Store.Signer().Ready(audit.Records), audit.ErrKeyElsewhere)
		expect.That(t, len(server.KeyElsewhere(h.Store.Signer())) == 1, "the operator's page does not say so")
	}
	head := audit.TreeHead{Size: 3}
	signed := expect.Value(a.Store.Signer().SignTree(head))(t)
	expect.That(t, signed == expect.Value(b.Store.Signer().SignTree(head))(t),
		"two hosts sign the same tree with different keys")
	before := audit.NewSigner(audit.KeyName, a.Keys.SignSeed)
	if _, err := before.OpenTree(signed); err == nil || a.Store.Signer().Origin(0) != before.Origin(0) {
		t.Error("the key did not change, or the origin did")
	}
	trust := expect.Value(activation.ParseTrust(hosttest.ReadText(t, filepath.Join(first, "trust"))))(t)
	for _, h := range []*installation.Backend{a, old} { // what either signs is trusted
		key := expect.Value(h.HostKey())(t)
		note := expect.Value(activation.Sign(activation.Activation{Number: 1, Lineup: activation.Lineup{Revision: 1},
			Author: "x", Reason: "x", At: time.Now()}, key))(t)
		by, err := trust.Open(note)
		expect.That(t, err == nil && by.Role == activation.Host, "a host's activation: %+v, %v", by, err)
	}
	hosttest.WantRefusal(t, "another, before", first, database, nil, []string{"secret", "rotate", "--in=0s"},
		"before that of the last generation")
	hosttest.WantRefusal(t, "one that is not in use", first, database, nil, []string{"secret", "remove", "2"},
		"in use, or will be")
}

// TestSecretRemoval removes a generation once nothing is encrypted under it.
func TestSecretRemoval(t *testing.T) {
	t.Parallel()
	database, dir := postgrestest.Database(t), hosttest.OwnSecrets(t, hosttest.DataDir(t))
	hosttest.OpenStore(t, dir, database)
	hosttest.Output(t, dir, database, "secret", "rotate", "--in=0s")
	account := hosttest.OutputJSON[apikey.Issued](t, dir, database, "keys", "create", "--plan", "pro").Account
	hosttest.Output(t, dir, database, "webhooks", "set", account, "--url", "https://receiver.example/")
	hosttest.Output(t, dir, database, "secret", "rotate", "--in=0s")
	list := hosttest.OutputJSON[[]generationReport](t, dir, database, "secret", "list")
	expect.That(t, len(list) == 3 && list[1].State == "former" && list[1].Values["webhook_endpoints"] == 1 &&
		list[2].State == "current" && len(list[2].Values) == 0, "%+v", list)
	remove := []string{"secret", "remove", "2"}
	hosttest.WantRefusal(t, "one that is needed", dir, database, nil, remove, "webhook_endpoints 1", "secret reseal")
	hosttest.WantRefusal(t, "the first", dir, database, nil, []string{"secret", "remove", "1"}, "pseudonyms")
	out := hosttest.Output(t, dir, database, "secret", "reseal")
	expect.That(t, strings.HasPrefix(out, "1 values"), "reseal printed %q", out)
	hosttest.Output(t, dir, database, remove...)
	out = hosttest.Output(t, dir, database, "secret", "list")
	expect.That(t, !strings.Contains(out, "former  2") && strings.Contains(out, "webhook_endpoints 1"), "left: %s", out)
	stale := hosttest.OwnSecrets(t, hosttest.DataDir(t))
	hosttest.WantRefusal(t, "a command with the old secret", stale, database, nil, []string{"audit", "verify"},
		"copy the secret file of another host")
	// The log is still signed by the newest key, and verified with the first.
	b := hosttest.OpenStore(t, dir, database)
	keys := hosttest.WriteFile(t, "keys", []byte(b.Store.Signer().TreeKey(0)+"\n"))
	statements := b.Store.Signer().Statements()
	expect.That(t, len(statements) == 2, "%d statements", len(statements))
	expect.NoError(t, (&auditlog.Keeper{Store: b.Store, Signer: b.Store.Signer(),
		Logger: storetest.Discard()}).SignHeads(t.Context()))
	export := filepath.Join(t.TempDir(), "export")
	hosttest.Output(t, dir, database, "audit", "export", export)
	hosttest.Output(t, dir, database, "audit", "verify", "--public-key", keys, "--offline", export)
}
