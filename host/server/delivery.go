package server

import (
	"context"
	"errors"
	"net"
	"sync/atomic"

	"assay/host/customer/webhook"
	"assay/host/installation"
	"assay/host/store"
	"assay/host/web/api"
)

// delivery is a host's deliverer and the outbox that it reads.
type delivery struct {
	*webhook.Deliverer
	outbox *store.Outbox
}

// openDelivery returns a deliverer of webhook events. It delivers nothing until Run is called.
func openDelivery(b *installation.Backend, cfg webhook.Config) (*delivery, error) {
	outbox, err := b.Store.NewOutbox()
	if err != nil {
		return nil, err
	}
	cfg.Outbox = outbox
	deliverer, err := webhook.New(cfg)
	if err != nil {
		return nil, errors.Join(err, outbox.Close())
	}
	return &delivery{deliverer, outbox}, nil
}

func (d *delivery) close() error { return d.outbox.Close() }

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

// EventFeed adapts the store to api.Events.
type EventFeed struct{ store *store.Store }

// After implements api.Events.
func (f EventFeed) After(ctx context.Context, account string, after int64, limit int) ([]api.Event, error) {
	found, err := f.store.EventsAfter(ctx, account, after, limit)
	if err != nil {
		return nil, err
	}
	events := make([]api.Event, len(found))
	for i, e := range found {
		events[i] = api.Event{Sequence: e.Sequence, State: e.State, Attempts: e.Attempts, Name: e.Name,
			At: e.OccurredAt, Type: e.Type, Score: e.Score, Ref: e.Ref, Body: e.Body}
	}
	return events, nil
}
