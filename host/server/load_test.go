package server

import (
	"context"
	"testing"

	"assay/host/hosttest"
	"assay/host/installation"
	"assay/host/internal/terminal"
	"assay/host/store"
	"assay/host/store/postgres/postgrestest"
	"assay/host/store/storetest"
	"assay/registry/expect"
)

// A host is ready with what was true when it began to hear of changes: an override that is set meanwhile is not missed.
func TestLoadsOnceItHearsOfChanges(t *testing.T) {
	t.Parallel()
	at := postgrestest.Database(t)
	proxy := storetest.NewProxy(t, at)
	keys := hosttest.OpenStore(t, hosttest.DataDir(t), at).Keys
	h := newHost(&installation.Config{}, &terminal.Terminal{}, Options{})
	var err error
	h.log = storetest.Discard()
	h.store, err = store.Open(t.Context(), store.Config{URL: at, DirectURL: proxy.URL, Keys: keys, Logger: h.log})
	expect.NoError(t, err)
	storetest.Close(t, h.store)
	reached := proxy.HoldBack(func(statement string) bool { return statement == "LISTEN assay" }, nil)
	loaded := make(chan bool, 1)
	h.add(part{Load: func(context.Context) {
		select {
		case <-h.listening:
			loaded <- true
		default:
			loaded <- false
		}
	}})
	start := h.startJobs(t.Context())
	go h.load(t.Context(), start)
	storetest.Receive(t, "the host to listen", reached)
	proxy.Disconnect()
	expect.That(t, storetest.Receive(t, "the host to load", loaded), "the host loaded before it heard of changes")
	expect.NoError(t, h.close())
}
