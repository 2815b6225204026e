package operation

import (
	"bytes"
	"encoding/json"
	"io/fs"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"assay/host/audit"
	"assay/host/hosttest"
	"assay/registry/expect"
)

// verifyPublicTree verifies a host's public checkpoint and tiles as anybody with the verifier key can.
func verifyPublicTree(t *testing.T, address, dir, database string) {
	t.Helper()
	keys := verifierKeys(t, dir, database)
	_, note := fetch(t, http.DefaultClient, address+"/audit/checkpoint?chain=0")
	head := expect.Value(audit.ParseTreeHead(note, 0, keys[0]))(t)
	expect.That(t, head.Size >= 3, "the checkpoint covers %d records", head.Size)
	var tile []byte
	read := func(ids []audit.TileID) (tiles [][]byte, err error) {
		for _, id := range ids {
			r, hashes := fetch(t, http.DefaultClient, address+"/audit/0/"+id.Path())
			expect.Equal(t, "the status of a tile", r.StatusCode, http.StatusOK)
			tile = []byte(hashes)
			tiles = append(tiles, tile)
		}
		return tiles, nil
	}
	proof := expect.Value(audit.ProveInclusion(head, head.Size-1, read))(t)
	last := audit.Hash(tile[len(tile)-len(audit.Hash{}):])
	expect.NoError(t, audit.CheckInclusion(head, head.Size-1, last, proof))
	r, _ := fetch(t, http.DefaultClient, address+"/audit/0/tile/entries/000")
	expect.Equal(t, "the status of entries", r.StatusCode, http.StatusNotFound)
	verifyElsewhere(t, address, database, keys, note)
	code, errs := hosttest.Failing(t, dir, database, "audit", "verify", "--witness-key=w+1")
	expect.That(t, code == 1 && strings.Contains(errs, `--witness-key: "w+1" is not the public key of a witness`),
		"audit verify with a malformed key: exit code %d, %s", code, errs)
	expect.That(t, bytes.Count([]byte(note), []byte("\n")) == 5, "the checkpoint is %q", note)
}

// verifyReceipts verifies the receipt of a check that was just made, with its proof as soon as it has one.
func verifyReceipts(t *testing.T, host *hosttest.HostProcess, key, dir, database string) {
	t.Helper()
	keys := verifierKeys(t, dir, database)
	known := hosttest.WriteFile(t, "keys", []byte(strings.Join(keys, "\n")))
	var result struct {
		Ref     string
		Receipt json.RawMessage
	}
	_, text := hosttest.Send(t, host, key, "POST", "/api/check", `{"domain":"receipt-example.net","receipt":true}`)
	expect.NoError(t, json.Unmarshal([]byte(text), &result))
	none := filepath.Join(t.TempDir(), "none")
	verify := func(receipt []byte, args ...string) string {
		file := hosttest.WriteFile(t, "receipt.json", receipt)
		return hosttest.Output(t, none, "", append([]string{"audit", "verify-receipt", file, "--public-key", known},
			args...)...)
	}
	text = verify(result.Receipt)
	hosttest.Has(t, text, result.Ref, "not proved yet")
	var proved []byte
	expect.Until(t, "the receipt has a proof", func() bool {
		status, text := hosttest.Send(t, host, key, "GET", "/api/receipts/"+result.Ref, "")
		proved = []byte(text)
		return status == http.StatusOK && !strings.Contains(text, `"proof":null`)
	})
	for _, args := range [][]string{nil, {"--log", host.URL}} {
		hosttest.Has(t, verify(proved, args...), "of the signed tree of")
	}
	hosttest.Has(t, verify(result.Receipt, "--log", host.URL), "of the signed tree of")
	altered := bytes.Replace(proved, []byte(`"kind":"check"`), []byte(`"kind":"export"`), 1)
	for want, receipt := range map[string][]byte{"is leaf": proved, "promised": result.Receipt,
		"about another record": altered} {
		text, err := verifyInPython(t, "receipt", "--key", known, hosttest.WriteFile(t, "receipt.json", receipt))
		expect.That(t, (err == nil) == (want != "about another record") && strings.Contains(text, want),
			"Python, %s: %v\n%s", want, err, text)
	}
}

// verifyElsewhere verifies a host's log on a machine without the installation: through a connection that may only read,
// from an export, and with the verifier in Python, which also verifies that the public log only grew.
func verifyElsewhere(t *testing.T, address, database string, keys []string, checkpoint string) {
	t.Helper()
	none := filepath.Join(t.TempDir(), "none")
	key := hosttest.WriteFile(t, "keys", []byte(strings.Join(keys, "\n")))
	kept := hosttest.WriteFile(t, "checkpoint", []byte(checkpoint))
	export := filepath.Join(t.TempDir(), "export.jsonl")
	at := expect.Value(url.Parse(database))(t)
	settings := at.Query()
	settings.Set("default_transaction_read_only", "on")
	at.RawQuery = settings.Encode()
	readOnly := at.String()
	hosttest.Output(t, none, readOnly, "audit", "export", export, "--public-key", key)
	for _, args := range [][]string{{"--public-key", key}, {"--public-key", key, "--offline", export},
		{"--public-key", key, "--checkpoints", kept}} {
		hosttest.Has(t, hosttest.Output(t, none, readOnly, append([]string{"audit", "verify"}, args...)...),
			"Audit chain 0 is valid")
	}
	code, errs := hosttest.Failing(t, none, readOnly, "audit", "verify", "--public-key", key, "--offline", export,
		"--witness-key=w+1")
	expect.That(t, code == 1 && strings.Contains(errs, "is not the public key of a witness"),
		"audit verify --offline with a malformed key: exit code %d, %s", code, errs)
	expect.Error(t, "the data directory", expect.ErrorOf(os.Stat(none)), fs.ErrNotExist)
	for want, args := range map[string][]string{
		"Audit chain 0 is valid":  {"export", "--key", key, "--checkpoints", kept, export},
		"Audit chain 0 only grew": {"log", "--key", key, "--checkpoint", kept, address},
	} {
		text, err := verifyInPython(t, args...)
		expect.That(t, err == nil && strings.Contains(text, want), "%v: %v\n%s", args, err, text)
	}
}

// verifierKeys returns the keys that verify an installation's checkpoints.
func verifierKeys(t *testing.T, dir, database string) []string {
	t.Helper()
	return hosttest.OutputJSON[struct {
		VerifierKeys []string `json:"verifier_keys"`
	}](t, dir, database, "audit", "checkpoint").VerifierKeys
}

// verifyInPython runs the verifier of examples/.
func verifyInPython(t *testing.T, args ...string) (string, error) {
	t.Helper()
	python, err := exec.LookPath("python3")
	if err != nil {
		t.Skip("this test needs python3: install it with `apt-get install python3`")
	}
	cmd := exec.CommandContext(t.Context(), python, append([]string{"../../../examples/verify-python/verify.py"},
		args...)...)
	cmd.Env = append(os.Environ(), "PYTHONDONTWRITEBYTECODE=1")
	text, err := cmd.CombinedOutput()
	return string(text), err
}
