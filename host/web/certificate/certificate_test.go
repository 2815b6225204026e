package certificate_test

import (
	"bytes"
	"crypto/tls"
	"errors"
	"io"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"assay/host/web/certificate"
	"assay/host/web/certificate/certificatetest"
	"assay/registry/expect"
)

var begin = time.Date(2026, 3, 1, 8, 0, 0, 0, time.UTC)

const day = 24 * time.Hour

// files is a folder with a certificate and its key, and a pair that was opened from them.
type files struct {
	dir  string
	now  time.Time
	log  bytes.Buffer
	pair *certificate.Pair
}

func (f *files) cert() string { return filepath.Join(f.dir, "cert.pem") }
func (f *files) key() string  { return filepath.Join(f.dir, "key.pem") }

func write(t *testing.T, file string, data []byte) {
	t.Helper()
	expect.NoError(t, os.WriteFile(file, data, 0o600))
}

// open opens a certificate with serial number 1.
func open(t *testing.T, life time.Duration) *files {
	t.Helper()
	f := &files{dir: t.TempDir(), now: begin}
	cert, key := certificatetest.Pair(t, 1, begin, begin.Add(life))
	write(t, f.cert(), cert)
	write(t, f.key(), key)
	f.pair = expect.Value(certificate.Open(f.cert(), f.key(), slog.New(slog.NewTextHandler(&f.log, nil)),
		func() time.Time { return f.now }))(t)
	return f
}

// served returns the serial number of the certificate that a new client sees.
func (f *files) served(t *testing.T) int64 {
	t.Helper()
	_, client := f.connect(t)
	return client.ConnectionState().PeerCertificates[0].SerialNumber.Int64()
}

// connect returns both ends of a new connection after its handshake.
func (f *files) connect(t *testing.T) (server, client *tls.Conn) {
	t.Helper()
	near, far := net.Pipe()
	server = tls.Server(near, f.pair.Config())
	client = tls.Client(far, &tls.Config{InsecureSkipVerify: true, NextProtos: []string{"h2", "http/1.1"}})
	done := make(chan error, 1)
	go func() { done <- server.Handshake() }()
	expect.NoError(t, errors.Join(client.Handshake(), <-done))
	t.Cleanup(func() { _, _ = near.Close(), far.Close() })
	return server, client
}

func TestOpenNamesWhatIsWrong(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	cert, key := certificatetest.Pair(t, 1, begin, begin.Add(day))
	_, other := certificatetest.Pair(t, 2, begin, begin.Add(day))
	file := func(name string, data []byte) string {
		write(t, filepath.Join(dir, name), data)
		return filepath.Join(dir, name)
	}
	good, goodKey := file("good.pem", cert), file("good.key", key)
	public := file("public.key", key)
	expect.NoError(t, os.Chmod(public, 0o644))
	for name, test := range map[string]struct {
		cert, key string
		want      []string
	}{
		"no certificate":    {filepath.Join(dir, "none.pem"), goodKey, []string{"none.pem", "no such file"}},
		"no key":            {good, filepath.Join(dir, "none.key"), []string{"none.key", "no such file"}},
		"key of another":    {good, file("other.key", other), []string{"good.pem", "other.key", "does not match"}},
		"no PEM":            {file("text.pem", []byte("text")), goodKey, []string{"text.pem", "certificate input"}},
		"key without PEM":   {good, file("text.key", []byte("text")), []string{"text.key", "key input"}},
		"half of a file":    {file("half.pem", cert[:len(cert)/2]), goodKey, []string{"half.pem"}},
		"exchanged files":   {goodKey, good, []string{"good.key", "good.pem"}},
		"a folder as a key": {good, dir, []string{dir, "is a directory"}},
		"a public key file": {good, public, []string{"(mode 644): run chmod 640 " + public}},
	} {
		_, err := certificate.Open(test.cert, test.key, slog.New(slog.DiscardHandler), time.Now)
		for _, want := range test.want {
			expect.That(t, err != nil && strings.Contains(err.Error(), want), "%s: %v, want %q", name, err, want)
		}
		expect.That(t, err == nil || !strings.Contains(err.Error(), "PRIVATE"), "%s: the error quotes the key: %v",
			name, err)
	}
}

// A new certificate is served to new clients, however its files are replaced, and open connections stay.
func TestRefresh(t *testing.T) {
	t.Parallel()
	expect.Each(t, map[string]func(t *testing.T, f *files, cert, key []byte){
		"written in place": func(t *testing.T, f *files, cert, key []byte) {
			write(t, f.cert(), cert)
			write(t, f.key(), key)
		},
		"renamed": func(t *testing.T, f *files, cert, key []byte) {
			for file, data := range map[string][]byte{f.cert(): cert, f.key(): key} {
				write(t, file+".new", data)
				expect.NoError(t, os.Rename(file+".new", file))
			}
		},
		"linked elsewhere": func(t *testing.T, f *files, cert, key []byte) { // as certbot and Kubernetes do
			folder := t.TempDir()
			for file, data := range map[string][]byte{f.cert(): cert, f.key(): key} {
				write(t, filepath.Join(folder, filepath.Base(file)), data)
				expect.NoError(t, errors.Join(os.Symlink(filepath.Join(folder, filepath.Base(file)), file+".new"),
					os.Rename(file+".new", file)))
			}
		},
	}, func(t *testing.T, replace func(t *testing.T, f *files, cert, key []byte)) {
		f := open(t, 90*day)
		server, client := f.connect(t)
		for serial := range int64(3) {
			cert, key := certificatetest.Pair(t, serial+2, begin, begin.Add((90+time.Duration(serial))*day))
			replace(t, f, cert, key)
			expect.NoError(t, f.pair.Refresh(t.Context()))
			expect.Equal(t, "the certificate", f.served(t), serial+2)
			want := begin.Add((90 + time.Duration(serial)) * day)
			expect.That(t, f.pair.Expiry().Equal(want), "it expires at %v, want %v", f.pair.Expiry(), want)
		}
		go func() { _, _ = server.Write([]byte("still here")) }()
		got, err := io.ReadAll(io.LimitReader(client, 10))
		expect.That(t, string(got) == "still here", "the open connection: %q, %v", got, err)
		expect.Equal(t, "the protocol", client.ConnectionState().NegotiatedProtocol, "http/1.1")
	})
}

// Files that cannot be used leave the certificate before in service. The log says so once.
func TestRefreshKeepsTheCertificateBefore(t *testing.T) {
	t.Parallel()
	f := open(t, 90*day)
	old := expect.Value(os.ReadFile(f.cert()))(t)
	next, key := certificatetest.Pair(t, 2, begin, begin.Add(90*day))
	write(t, f.cert(), next) // and not yet its key
	for range 3 {
		expect.NoError(t, f.pair.Refresh(t.Context()))
	}
	expect.Equal(t, "the certificate", f.served(t), 1)
	d := f.pair.Degraded()
	expect.That(t, len(d) == 1 && strings.Contains(d[0], "does not match"), "degraded: %q", d)
	expect.Equal(t, "lines in the log", strings.Count(f.log.String(), "was not replaced"), 1)
	expect.NoError(t, os.Chmod(f.key(), 0o604))
	_ = f.pair.Refresh(t.Context())
	d = f.pair.Degraded()
	expect.That(t, len(d) == 1 && strings.Contains(d[0], "(mode 604)") && f.served(t) == 1, "degraded: %q", d)
	expect.NoError(t, os.Chmod(f.key(), 0o640)) // as on Debian, where the group ssl-cert reads keys
	write(t, f.cert(), old)
	_ = f.pair.Refresh(t.Context())
	expect.Equal(t, "degraded with the old files", len(f.pair.Degraded()), 0)
	write(t, f.cert(), next)
	write(t, f.key(), key)
	_ = f.pair.Refresh(t.Context())
	d = f.pair.Degraded()
	expect.That(t, len(d) == 0 && f.served(t) == 2, "degraded with the new files: %q; %d is served", d, f.served(t))
}

func TestDegradedByAge(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		life, age time.Duration
		want      string
	}{
		"new, 90 days":          {90 * day, 0, ""},
		"14 days left":          {90 * day, 76 * day, ""},
		"less than 14 days":     {90 * day, 76*day + 1, "expires on 2026-05-30 at 08:00 UTC"},
		"six days, fresh":       {6 * day, 4 * day, ""},
		"six days, a fifth":     {6 * day, 5 * day, "expires on 2026-03-07 at 08:00 UTC"},
		"expired":               {6 * day, 7 * day, "expired on 2026-03-07 at 08:00 UTC"},
		"not valid yet":         {6 * day, -time.Hour, "not valid before 2026-03-01 at 08:00 UTC"},
		"a year, 15 days left":  {365 * day, 350 * day, ""},
		"a year, a week left":   {365 * day, 358 * day, "expires on 2027-03-01"},
		"a day, eight hours on": {day, 8 * time.Hour, ""},
	} {
		f := open(t, test.life)
		f.now = begin.Add(test.age)
		_, _ = f.pair.Refresh(t.Context()), f.pair.Refresh(t.Context())
		got := strings.Join(f.pair.Degraded(), "; ")
		expect.That(t, (got == "") == (test.want == "") && strings.Contains(got, test.want), "%s: %q, want %q", name,
			got, test.want)
		expect.Equal(t, name+": warnings in the log", strings.Count(f.log.String(), "level=WARN"),
			len(f.pair.Degraded()))
	}
}

func TestNoCertificate(t *testing.T) {
	t.Parallel()
	var none *certificate.Pair
	expect.That(t, none.Config() == nil && none.Degraded() == nil,
		"a host without a certificate has settings or problems")
}

// Clients that know only versions of TLS before 1.2 are refused.
func TestOldVersions(t *testing.T) {
	t.Parallel()
	f := open(t, day)
	near, far := net.Pipe()
	defer near.Close()
	go func() { _ = tls.Server(far, f.pair.Config()).Handshake(); _ = far.Close() }()
	old := tls.Client(near, &tls.Config{InsecureSkipVerify: true, MinVersion: tls.VersionTLS10,
		MaxVersion: tls.VersionTLS11})
	expect.Failure(t, old.Handshake(), "TLS 1.1 is accepted")
}
