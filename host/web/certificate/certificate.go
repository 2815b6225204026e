// Package certificate keeps a host's TLS certificate current: its files are read again, so that a renewed certificate
// needs no restart.
package certificate

import (
	"context"
	"crypto/sha256"
	"crypto/tls"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"assay/host/internal/private"
)

// A certificate expires soon when less than a fifth of its life is left, and at most 14 days. Clients of Let's Encrypt
// renew with a third left, so by then several attempts have failed.
const (
	soonShare = 5
	soonMost  = 14 * 24 * time.Hour
)

// Pair is a certificate and its key, in PEM files. Its methods are safe for concurrent use.
type Pair struct {
	certFile, keyFile string
	log               *slog.Logger
	now               func() time.Time
	served            atomic.Pointer[tls.Certificate]

	mu      sync.Mutex
	digest  [sha256.Size]byte // of the files whose certificate is served
	problem string            // why the files cannot be used; empty: they are
	warned  string            // the last warning in the log
}

// Open reads a certificate with its intermediate certificates, and its key.
func Open(certFile, keyFile string, log *slog.Logger, now func() time.Time) (*Pair, error) {
	p := &Pair{certFile: certFile, keyFile: keyFile, log: log, now: now}
	if err := p.read(); err != nil {
		return nil, err
	}
	p.warn()
	return p, nil
}

// Refresh serves the certificate that the files contain now. If it cannot be used, Refresh logs why once, and the
// previous certificate stays in service. Refresh compares contents, so it does not matter how files are replaced.
func (p *Pair) Refresh(context.Context) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	problem := ""
	if err := p.read(); err != nil {
		problem = err.Error()
	}
	if problem != "" && problem != p.problem {
		p.log.Error("the TLS certificate was not replaced; the previous one stays in service", "error", problem)
	}
	p.problem = problem
	p.warn()
	return nil
}

// read reads the files, and serves their certificate if it is new. The caller holds the lock.
func (p *Pair) read() error {
	cert, err := os.ReadFile(p.certFile)
	if err != nil {
		return fmt.Errorf("reading the TLS certificate: %w", err)
	}
	key, err := private.ReadWithGroup(p.keyFile)
	if err != nil {
		return fmt.Errorf("reading the key of the TLS certificate: %w", err)
	}
	digest := sha256.Sum256(append(append(cert[:len(cert):len(cert)], 0), key...))
	if p.served.Load() != nil && digest == p.digest {
		return nil
	}
	pair, err := tls.X509KeyPair(cert, key)
	if err != nil {
		return fmt.Errorf("reading the TLS certificate in %s with the key in %s: %w", p.certFile, p.keyFile, err)
	}
	p.digest = digest
	p.served.Store(&pair)
	p.log.Info("serving a TLS certificate", "names", pair.Leaf.DNSNames, "serial", pair.Leaf.SerialNumber.String(),
		"expires", pair.Leaf.NotAfter)
	return nil
}

// Config returns the TLS settings of an HTTP/1.1 server. It returns nil for a nil Pair.
func (p *Pair) Config() *tls.Config {
	if p == nil {
		return nil
	}
	return &tls.Config{
		MinVersion:     tls.VersionTLS12,
		NextProtos:     []string{"http/1.1"},
		GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return p.served.Load(), nil },
	}
}

// Expiry returns when the certificate in service expires.
func (p *Pair) Expiry() time.Time { return p.served.Load().Leaf.NotAfter }

// Degraded returns a sentence for each problem. It returns none for a nil Pair.
func (p *Pair) Degraded() (problems []string) {
	if p == nil {
		return nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.problem != "" {
		problems = append(problems, "the TLS certificate before is still in service: "+p.problem)
	}
	if text := p.validity(); text != "" {
		problems = append(problems, text)
	}
	return problems
}

// validity returns the problem with the certificate's validity period, or "".
func (p *Pair) validity() string {
	leaf, now := p.served.Load().Leaf, p.now()
	const layout = "2006-01-02 at 15:04 UTC"
	soon := min(leaf.NotAfter.Sub(leaf.NotBefore)/soonShare, soonMost)
	switch until := leaf.NotAfter.UTC().Format(layout); {
	case now.After(leaf.NotAfter):
		return "the TLS certificate expired on " + until + ", so clients refuse it"
	case now.Before(leaf.NotBefore):
		return "the TLS certificate is not valid before " + leaf.NotBefore.UTC().Format(layout)
	case leaf.NotAfter.Sub(now) < soon:
		return "the TLS certificate expires on " + until + " and was not renewed"
	}
	return ""
}

// warn logs a problem with the validity once. The caller holds the lock.
func (p *Pair) warn() {
	text := p.validity()
	if text != "" && text != p.warned {
		p.log.Warn(text)
	}
	p.warned = text
}
