package server

import (
	"fmt"
	"log/slog"
	"time"

	"assay/host/installation"
	"assay/host/web/certificate"
)

// certificateInterval is how often the files of the TLS certificate are read.
const certificateInterval = time.Second

// openCertificate returns the certificate to serve HTTPS with, or nil for plain HTTP.
func openCertificate(c *installation.Config, log *slog.Logger) (*certificate.Pair, error) {
	if c.TLSCert == "" {
		return nil, nil
	}
	pair, err := certificate.Open(c.TLSCert, c.TLSKey, log, time.Now)
	if err != nil {
		return nil, fmt.Errorf("ASSAY_TLS_CERT, ASSAY_TLS_KEY: %w", err)
	}
	return pair, nil
}
