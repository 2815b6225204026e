package operation

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"assay/host/access/apikey"
	"assay/host/hosttest"
	"assay/host/store/postgres/postgrestest"
	"assay/host/web/certificate/certificatetest"
	"assay/registry/expect"
)

// A host with a certificate serves HTTPS, takes a renewed certificate while it runs, and keeps the one before if the
// new one is broken.
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
	text := expect.Value(io.ReadAll(response.Body))(t)
	return response, string(text)
}
