package server

import (
	"errors"
	"fmt"
	"testing"

	"assay/host/store"
	"assay/registry/expect"
)

func TestParts(t *testing.T) {
	t.Parallel()
	var calls []string
	add := func(h *host, name string) {
		note := func(call string) { calls = append(calls, call+" "+name) }
		h.add(part{
			Changed:   map[store.Topic]func(){store.TopicKeys: func() { note("keys of") }},
			Erased:    func(subject []byte) { note(fmt.Sprintf("erase %x in", subject)) },
			Obstacles: func() []obstacle { return unless(name, errors.New("absent"), "wait") },
			Problems:  []problems{{func() []string { return []string{name + " is slow"} }, "hurry"}},
			Close:     func() error { note("close"); return errors.New(name) },
		})
	}
	h := &host{}
	add(h, "first")
	h.add(part{}) // turned off
	add(h, "second")
	expect.ErrorText(t, "not ready", h.ready(), "first: absent\nsecond: absent")
	expect.NoDiff(t, "degraded", []string{"first is slow", "second is slow"}, h.degraded())
	notify(h.parts, store.TopicKeys)
	notify(h.parts, store.TopicErasures+" ab")
	expect.ErrorText(t, "closing", h.close(), "second\nfirst")
	expect.NoDiff(t, "calls", []string{"keys of first", "keys of second", "erase ab in first", "erase ab in second",
		"close second", "close first"}, calls)
}
