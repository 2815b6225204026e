package server

import (
	"context"
	"fmt"
	"strings"
	"time"

	"assay/host/auditlog"
	"assay/host/installation"
	"assay/host/store"
	"assay/host/web/admin"
	"assay/host/web/api"
	"assay/host/web/console"
)

// newServer makes the servers of customers and operators, which do not serve yet.
func (h *host) newServer() error {
	proxies, err := h.cfg.Proxies()
	if err != nil {
		return err
	}
	d, gate := h.desk, h.scoring.gate
	h.server = api.New(api.Config{
		Checker:        h.scoring.checker,
		Keys:           h.store,
		Public:         d.public,
		Rates:          d.rates,
		Answers:        h.ledger,
		Door:           gate,
		Refused:        h.metrics.CheckRefused,
		Answered:       h.metrics.RequestAnswered,
		Used:           h.store.NoteUse,
		Events:         h.store,
		Downloads:      d.downloads,
		Privacy:        h.store,
		Decisions:      h.store,
		Explainer:      d.explainer,
		Feedback:       d.feedback,
		Overrides:      h.store,
		AuditLog:       auditlog.Files{Store: h.store},
		Receipts:       auditlog.Receipts{Store: h.store, Signer: h.keeper.Signer},
		Outage:         store.IsOutage,
		Ready:          h.ready,
		ProviderEvent:  h.providerEvents(),
		Pages:          d.pages.Handler(),
		PageError:      console.ErrorText,
		TLS:            h.certificate.Config(),
		HTTPS:          h.cfg.TLSCert != "" || strings.HasPrefix(h.cfg.URL, "https://"),
		TrustedProxies: proxies,
		Logger:         h.log,
		Version:        installation.Version,
	})
	h.metrics.WatchServer(h.server.Load)
	h.metrics.WatchReady(func() bool { return h.ready() == nil && !h.server.Draining() })
	h.metrics.WatchDegraded(h.degraded, h.lookups.FalseDNS)
	if err := h.newAdminServer(); err != nil {
		return err
	}
	h.exit = &exit{server: h.server, log: h.log, terminal: h.terminal}
	h.add(part{Close: h.exit.finish})
	return nil
}

// serve starts the servers. It returns a channel that receives an error if one ends.
func (h *host) serve() <-chan error {
	ended := make(chan error, 2)
	if h.admin != nil {
		go func() {
			if err := h.admin.Serve(h.operators); err != nil {
				ended <- fmt.Errorf("serving operators: %w", err)
			}
		}()
	}
	go func() { ended <- h.server.Serve(h.listener) }()
	return ended
}

// adminStopTimeout is the time for responses to operators when the host stops.
const adminStopTimeout = 2 * time.Second

// newAdminServer makes the operators' server, unless it is turned off.
func (h *host) newAdminServer() error {
	page, err := newOperatorPage(h)
	if err != nil || h.operators == nil {
		return err
	}
	h.admin = admin.New(admin.Config{
		Metrics: h.metrics.Handler(), Operator: page, Ready: h.notReady, Degraded: h.degraded,
		Draining: h.server.Draining, Version: installation.Version, Logger: h.log,
	})
	h.add(part{Close: func() error {
		ctx, cancel := context.WithTimeout(context.Background(), adminStopTimeout)
		defer cancel()
		return h.admin.Shutdown(ctx)
	}})
	return nil
}
