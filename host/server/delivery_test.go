package server

import (
	"context"
	"net"
	"testing"

	"assay/host/installation"
	"assay/registry/expect"
)

// The names of receivers are resolved with the servers in ASSAY_DNS.
func TestReceiverResolver(t *testing.T) {
	t.Parallel()
	server := expect.Value(net.ListenPacket("udp", "127.0.0.1:0"))(t)
	defer server.Close()
	resolver := receiverResolver(&installation.Config{DNS: []string{server.LocalAddr().String()}})
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		_, _, _ = server.ReadFrom(make([]byte, 512))
		cancel()
	}()
	_, err := resolver.LookupHost(ctx, "receiver.test")
	expect.That(t, ctx.Err() != nil, "the name server was not queried: %v", err)
	off := &installation.Config{DNS: []string{installation.Off}}
	expect.That(t, receiverResolver(&installation.Config{}) == nil && receiverResolver(off) == nil,
		"without name servers, the resolver is not the system's")
}
