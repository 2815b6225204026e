package operation

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"io"
	"io/fs"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"assay/host/access/apikey"
	"assay/host/audit"
	"assay/host/hosttest"
	"assay/host/store/postgres/postgrestest"
	"assay/host/web/certificate/certificatetest"
	"assay/registry/expect"
)

// verifyPublicTree verifies a host's public checkpoint and tiles as anybody with the verifier key can.
func verifyPublicTree(t *testing.T, address, dir, database string) {
	t.Helper()
	keys := verifierKeys(t, dir, database)
	_, note := fetch(t, http.DefaultClient, address+"/audit/checkpoint?chain=0")
	head := expect.Value(expect.Value(audit.ParsePublic(audit.KeyName, keys[0]))(t).OpenTree(note))(t)
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
	expect.NoError(t, audit.CheckInclusion(head, head.Size-1, audit.Hash(tile[len(tile)-len(audit.Hash{}):]), proof))
	r, _ := fetch(t, http.DefaultClient, address+"/audit/0/tile/entries/000")
	expect.Equal(t, "the status of entries", r.StatusCode, http.StatusNotFound)
	verifyElsewhere(t, address, database, keys, note)
	hosttest.WantRefusal(t, "a malformed key", dir, database, nil, []string{"audit", "verify", "--witness-key=w+1"},
		`--witness-key: "w+1" is not the public key of a witness`)
	expect.That(t, bytes.Count([]byte(note), []byte("\n")) == 5, "the checkpoint is %q", note)
}

// verifyReceipts verifies the receipt of a check that was just made, with its proof as soon as it has one.
func verifyReceipts(t *testing.T, host *hosttest.HostProcess, key, dir, database string) {
	t.Helper()
	known := hosttest.WriteFile(t, "keys", []byte(strings.Join(verifierKeys(t, dir, database), "\n")))
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
	hosttest.Has(t, text, result.Ref, "under lineup revision ", "not proved yet")
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
	export, at := filepath.Join(t.TempDir(), "export.jsonl"), expect.Value(url.Parse(database))(t)
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
	hosttest.WantRefusal(t, "a malformed key", none, readOnly, nil, []string{"audit", "verify", "--public-key", key,
		"--offline", export, "--witness-key=w+1"}, "is not the public key of a witness")
	expect.Error(t, "the data directory", expect.ErrorOf(os.Stat(none)), fs.ErrNotExist)
	for want, args := range map[string][]string{
		"Audit chain 0 is valid":  {"export", "--key", key, "--checkpoints", kept, export},
		"Audit chain 0 only grew": {"log", "--key", key, "--checkpoint", kept, address},
	} {
		text, err := verifyInPython(t, args...)
		expect.That(t, err == nil && strings.Contains(text, want), "%v: %v\n%s", args, err, text)
	}
	for _, notes := range []string{"", strings.Replace(checkpoint, "\n\n— ", "\n\n— x", 1) + "\n" + checkpoint} {
		kept = hosttest.WriteFile(t, "checkpoint", []byte(notes))
		text, err := verifyInPython(t, "log", "--key", key, "--checkpoint", kept, address)
		expect.That(t, err != nil, "Python accepts the checkpoints %q: %s", notes, text)
		hosttest.WantRefusal(t, "a bad file of checkpoints", none, readOnly, nil, []string{"audit", "verify",
			"--public-key", key, "--checkpoints", kept}, "checkpoints: "+kept)
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
	python := expect.Program(t, "python3", "python3")
	cmd := exec.CommandContext(t.Context(), python, append([]string{"../../../examples/verify-python/verify.py"},
		args...)...)
	cmd.Env = append(os.Environ(), "PYTHONDONTWRITEBYTECODE=1")
	text, err := cmd.CombinedOutput()
	return string(text), err
}

// A host takes a renewed certificate while it runs, and keeps the one before if the new one is broken.
func TestHTTPS(t *testing.T) {
	t.Parallel()
	dir, database := hosttest.DataDir(t), postgrestest.Database(t)
	cert, key := filepath.Join(t.TempDir(), "cert.pem"), filepath.Join(t.TempDir(), "key.pem")
	roots := x509.NewCertPool()
	now := time.Now().Truncate(time.Second)
	install := func(serial int64, until time.Time) {
		t.Helper()
		certPEM, keyPEM := certificatetest.Pair(t, serial, now.Add(-time.Hour), until)
		roots.AppendCertsFromPEM(certPEM)
		for file, data := range map[string][]byte{cert: certPEM, key: keyPEM} {
			expect.NoError(t, os.WriteFile(file+".new", data, 0o600))
			expect.NoError(t, os.Rename(file+".new", file))
		}
	}
	install(1, now.Add(90*24*time.Hour))
	host := hosttest.StartHost(t, dir, database, "--tls-cert="+cert, "--tls-key="+key)
	expect.Must(t, strings.HasPrefix(host.URL, "https://127.0.0.1:"), "the host greets with %s", host.URL)
	_, err := hosttest.TryHost(t, hosttest.Command(t.Context(), dir, database, "--tls-cert=c.pem", "--tls-key=k.pem"))
	expect.ErrorText(t, "missing files", err, "ASSAY_TLS_CERT")
	expect.ErrorText(t, "missing files", err, "open c.pem: no such file")
	issued := hosttest.OutputJSON[apikey.Issued](t, dir, database, "keys", "create", "--plan", "pro")
	client := func() *http.Client {
		return &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots.Clone()}}}
	}
	first := client()
	defer first.CloseIdleConnections()
	a := hosttest.Post(first, host.URL, issued.Secret, hosttest.FleetBody)
	expect.Must(t, a.Status == 200, "a check: %+v", a)
	page, _ := fetch(t, first, host.URL+"/signin")
	expect.That(t, page.Header.Get("Strict-Transport-Security") != "", "pages do not tell browsers to stay with https")
	plain, _ := fetch(t, http.DefaultClient, "http://"+strings.TrimPrefix(host.URL, "https://")+"/healthz")
	expect.Equal(t, "the status of plain HTTP", plain.StatusCode, http.StatusBadRequest)

	install(2, now.Add(100*24*time.Hour))
	expect.Until(t, "the new certificate", func() bool {
		c := client()
		defer c.CloseIdleConnections()
		response, err := c.Get(host.URL + "/healthz")
		if err != nil {
			return false // for a moment, the key belongs to the certificate before
		}
		expect.NoError(t, response.Body.Close())
		return response.TLS.PeerCertificates[0].SerialNumber.Int64() == 2
	})

	expect.NoError(t, os.WriteFile(key, []byte("broken"), 0o600))
	var ready struct{ Degraded []string }
	expect.Until(t, "the broken key to be noticed", func() bool {
		expect.NoError(t, json.Unmarshal([]byte(hosttest.Get(t, host.Admin+"/readyz", "")), &ready))
		return strings.Contains(strings.Join(ready.Degraded, "\n"), key)
	})
	a = hosttest.Post(client(), host.URL, issued.Secret, hosttest.FleetBody)
	expect.That(t, a.Status == 200, "with a broken key: %+v", a)
	metric := regexp.MustCompile(`(?m)^assay_certificate_expiry_timestamp_seconds (.*)$`)
	m := metric.FindStringSubmatch(hosttest.Get(t, host.Admin+"/metrics", ""))
	var expires float64
	expect.That(t, m != nil && json.Unmarshal([]byte(m[1]), &expires) == nil &&
		int64(expires) == now.Add(100*24*time.Hour).Unix(), "the metric of the expiry is %q", m)
}

// fetch reads a page completely, so that its connection can be used again.
func fetch(t *testing.T, client *http.Client, url string) (*http.Response, string) {
	t.Helper()
	response := expect.Value(client.Get(url))(t)
	defer response.Body.Close()
	return response, string(expect.Value(io.ReadAll(response.Body))(t))
}
