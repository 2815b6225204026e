package server

import (
	"context"
	"errors"
	"net"
	"sync/atomic"

	"assay/host/customer/webhook"
	"assay/host/installation"
	"assay/host/telemetry"
)

// openDelivery opens the deliverer of webhook events, and the outbox that it reads.
func openDelivery(_ context.Context, h *host) (part, error) {
	allow, err := h.cfg.WebhookNetworks()
	if err != nil {
		return part{}, err
	}
	outbox, err := h.store.NewOutbox()
	if err != nil {
		return part{}, err
	}
	d, err := webhook.New(webhook.Config{Allow: allow, Resolver: receiverResolver(h.cfg), Logger: h.log,
		Observed: h.metrics.AttemptEnded, Turn: h.store.Turn, Outbox: outbox, Now: h.store.Now})
	if err != nil {
		return part{}, errors.Join(err, outbox.Close())
	}
	h.deliverer = d
	return part{
		Collect: func(m *telemetry.Metrics) { m.WatchDelivery(d.InFlight) },
		Run:     []func(context.Context){d.Run},
		Close:   outbox.Close,
	}, nil
}

// receiverResolver returns a resolver for the names of webhook receivers. It uses the configured DNS servers in turn.
// If there are none, it is nil, which means the system's resolver.
func receiverResolver(c *installation.Config) *net.Resolver {
	servers := c.ConfiguredResolvers()
	if len(servers) == 0 {
		return nil
	}
	var next atomic.Uint32
	return &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, network, _ string) (net.Conn, error) {
		server := servers[int(next.Add(1)-1)%len(servers)]
		return (&net.Dialer{}).DialContext(ctx, network, server)
	}}
}
