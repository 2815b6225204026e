package server

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"strings"
	"time"

	"assay/host/telemetry"
	"assay/host/web/admin"
	"assay/host/web/certificate"
)

// openListener opens the customers' listener, once the TLS certificate has been read.
func openListener(_ context.Context, h *host) (part, error) {
	if h.cfg.TLSCert != "" {
		pair, err := certificate.Open(h.cfg.TLSCert, h.cfg.TLSKey, h.log, time.Now)
		if err != nil {
			return part{}, fmt.Errorf("ASSAY_TLS_CERT, ASSAY_TLS_KEY: %w", err)
		}
		h.certificate = pair
	}
	l, err := net.Listen("tcp", h.cfg.Listen)
	if err != nil {
		return part{}, fmt.Errorf("listening on %s: %w", h.cfg.Listen, err)
	}
	h.listener, h.name = l, hostName(l.Addr().String())
	return part{Close: closeOnce(l)}, nil
}

// hostName returns the name of a host that listens on an address, for people.
func hostName(address string) string {
	machine, err := os.Hostname()
	if err != nil {
		machine = "unknown"
	}
	return machine + address[strings.LastIndexByte(address, ':'):]
}

// openAdminListener opens the operators' listener.
func openAdminListener(ctx context.Context, h *host) (part, error) {
	_, port, err := net.SplitHostPort(h.cfg.Listen)
	if err != nil {
		return part{}, fmt.Errorf("ASSAY_LISTEN: %w", err)
	}
	l, taken, err := admin.Listen(ctx, h.cfg.AdminListen, h.listener.Addr(), port == "" || port == "0")
	if taken != nil {
		h.log.Warn("the default address for operators is taken, so another port was chosen; ASSAY_ADMIN_LISTEN sets "+
			"one", "address", l.Addr().String(), "error", taken)
	}
	if err != nil || l == nil {
		return part{}, err
	}
	h.operators = l
	return part{Close: closeOnce(l)}, nil
}

// closeOnce returns a function that closes a listener unless its server has closed it already.
func closeOnce(l net.Listener) func() error {
	return func() error {
		if err := l.Close(); err != nil && !errors.Is(err, net.ErrClosed) {
			return err
		}
		return nil
	}
}

// renewalInterval is how often the files of the TLS certificate are read.
const renewalInterval = time.Second

// openRenewal serves HTTPS with the newest certificate in the files.
func openRenewal(_ context.Context, h *host) (part, error) {
	c := h.certificate
	if c == nil {
		return part{}, nil
	}
	return part{
		Collect: func(m *telemetry.Metrics) { m.WatchCertificate(c.Expiry) },
		Jobs:    jobs{localJobs: {{Name: "read the TLS certificate", Every: renewalInterval, Run: c.Refresh}}},
		Problems: []problems{{c.Degraded,
			"Renew the files of `ASSAY_TLS_CERT` and `ASSAY_TLS_KEY`. The host reads them again by itself."}},
	}, nil
}
