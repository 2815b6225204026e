package main

import (
	"errors"
	"fmt"
	"log/slog"
	"time"

	"assay/host/certificate"
)

// certificateInterval is how often the files of the TLS certificate are read.
const certificateInterval = time.Second

func (c *Config) validateTLS() error {
	switch {
	case c.TLSCert != "" && c.TLSKey == "":
		return errors.New("ASSAY_TLS_KEY: it is empty, but ASSAY_TLS_CERT is set")
	case c.TLSCert == "" && c.TLSKey != "":
		return errors.New("ASSAY_TLS_CERT: it is empty, but ASSAY_TLS_KEY is set")
	}
	return nil
}

// openCertificate returns the certificate to serve HTTPS with, or nil for plain HTTP.
func (c *Config) openCertificate(log *slog.Logger) (*certificate.Pair, error) {
	if c.TLSCert == "" {
		return nil, nil
	}
	pair, err := certificate.Open(c.TLSCert, c.TLSKey, log, time.Now)
	if err != nil {
		return nil, fmt.Errorf("ASSAY_TLS_CERT, ASSAY_TLS_KEY: %w", err)
	}
	return pair, nil
}

// scheme returns the beginning of the host's URL.
func (c *Config) scheme() string {
	if c.TLSCert != "" {
		return "https://"
	}
	return "http://"
}
