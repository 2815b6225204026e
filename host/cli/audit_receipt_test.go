package cli

import (
	"bytes"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"assay/host/audit"
	"assay/host/auditlog"
	"assay/registry/expect"
	"assay/sdk/receipt"
)

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
