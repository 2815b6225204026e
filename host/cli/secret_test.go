package cli

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"assay/host/access/apikey"
	"assay/host/audit"
	"assay/host/audit/witness"
	"assay/host/auditlog"
	"assay/host/hosttest"
	"assay/host/installation"
	"assay/host/server"
	"assay/host/store/postgres/postgrestest"
	"assay/host/store/storetest"
	"assay/registry/activation"
	"assay/registry/expect"
	"assay/sdk/receipt"
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

// TestWitness starts the command twice in one directory: its key stays, and it remembers what it cosigned.
func TestWitness(t *testing.T) {
	t.Parallel()
	signer := audit.NewSigner("assay/audit", bytes.Repeat([]byte{1}, 32))
	trust := hosttest.WriteFile(t, "trust", []byte("# the log of a test\n\nverifier key: "+signer.TreeKey(0)+"\n"))
	state := filepath.Join(t.TempDir(), "state")
	tree := expect.Value(audit.OpenTree(0, nil))(t)
	var keys [2]string
	for i := range keys {
		tree.Append(audit.Hash{byte(i)})
		checkpoint := expect.Value(signer.SignTree(tree.Head(0)))(t)
		ctx, stop := context.WithCancel(t.Context())
		reader, writer := io.Pipe()
		var out bytes.Buffer
		code := make(chan int, 1)
		go func() {
			code <- Run(ctx, []string{"witness", "--listen=127.0.0.1:0", "--name=one.example", "--state=" + state,
				"--trust=" + trust}, &out, writer)
			_ = writer.Close()
		}()
		line := make([]byte, 100)
		n, err := reader.Read(line)
		expect.NoError(t, err)
		_, url, ok := strings.Cut(strings.TrimSpace(string(line[:n])), "listening on ")
		expect.Must(t, ok, "it printed %q", line[:n])
		keys[i] = strings.TrimSpace(out.String())
		client := witness.NewClient(url, expect.Value(witness.ParseVerifier(keys[i]))(t), http.DefaultClient)
		var asked []int64
		_, err = client.Cosign(t.Context(), checkpoint, func(old int64) ([]audit.Hash, error) {
			asked = append(asked, old)
			if old == 1 { // the proof is the second leaf
				return []audit.Hash{{1}}, nil
			}
			return nil, nil
		})
		expect.NoError(t, err)
		expect.That(t, asked[len(asked)-1] == int64(i), "start %d: proofs from %v", i, asked)
		stop()
		expect.Equal(t, "exit code", <-code, 0)
	}
	expect.Equal(t, "the keys of two starts", keys[0], keys[1])
	expect.Failure(t, expect.ErrorOf(witness.OpenKey(state, "two.example")), "a key is opened under another name")
	file := filepath.Join(state, "key")
	expect.NoError(t, os.Chmod(file, 0o640))
	_, err := witness.OpenKey(state, "one.example")
	expect.ErrorText(t, "a key that a group can read", err, file+" (mode 640): run chmod 600 "+file)
}

// A receipt of before a rotation is compared with the log of after it.
func TestOldReceiptAfterRotation(t *testing.T) {
	t.Parallel()
	signer := audit.NewSigner(audit.KeyName, bytes.Repeat([]byte{1}, 32))
	record := audit.Record{Kind: audit.Check, At: "2026-01-02T03:04:05.006Z", Ref: "chk_1"}
	nonce := make([]byte, audit.NonceBytes)
	leaf := audit.Leaf(nonce, record)
	r := &receipt.Receipt{Format: receipt.Format, Record: receipt.NewRecord(nonce, record),
		Promise: expect.Value(signer.SignPromise(audit.Promise{Leaf: leaf, Until: time.Unix(1, 0)}))(t)}
	known := audit.NewSigner(audit.KeyName, bytes.Repeat([]byte{1}, 32)).Public
	_ = expect.Value(signer.Introduce(signer.Hold(bytes.Repeat([]byte{2}, 32)), audit.Checkpoints|audit.Records,
		time.Now().Add(-time.Hour)))(t)
	tree := &audit.Tree{}
	tree.Append(leaf)
	files := map[string]string{"/audit/0/keys": auditlog.Keys(signer.Public, audit.TreeHead{}),
		"/audit/0/tile/0/000.p/1": string(leaf[:]),
		"/audit/0/checkpoint":     expect.Value(signer.SignTree(tree.Head(0)))(t)}
	log := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, request *http.Request) {
		_, _ = w.Write([]byte(files[request.URL.Path]))
	}))
	t.Cleanup(log.Close)
	result, err := compareReceipt(t.Context(), r, known, 0, log.URL)
	expect.That(t, err == nil && result.Size == 1, "%+v, %v", result, err)
	thief := audit.NewSigner(audit.KeyName, bytes.Repeat([]byte{1}, 32)) // introduces another key
	_ = expect.Value(thief.Introduce(thief.Hold(bytes.Repeat([]byte{3}, 32)), audit.Checkpoints, time.Now()))(t)
	_, err = compareReceipt(t.Context(), r, thief.Public, 0, log.URL)
	expect.ErrorText(t, "a log with other keys than those kept", err, "two statements about key 2")
}
