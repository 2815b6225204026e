package store

import (
	"encoding/binary"
	"io"
	"net"
	"net/url"
	"sync/atomic"
	"testing"
	"time"

	"assay/host/store/storetest"
	is "assay/registry/expect"
)

// A host that starts while Postgres recovers from a crash, or is too busy to let it in, waits.
func TestOpenWaitsForTheDatabase(t *testing.T) {
	t.Parallel()
	needsDirect(t)
	for name, test := range map[string]struct {
		wait     time.Duration
		refusals int32
		refuse   func(client net.Conn)
	}{
		"recovering": {0, 3, refuseToStart},
		"busy":       {0, 1, func(client net.Conn) { _, _ = io.Copy(io.Discard, client) }},
		"down":       {time.Minute, 5, func(client net.Conn) {}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			openAfter(t, test.wait, test.refusals, test.refuse)
		})
	}
}

// openAfter opens a store on a database that refuses its first connections.
func openAfter(t *testing.T, wait time.Duration, refusals int32, refuse func(client net.Conn)) {
	t.Helper()
	at := is.Value(url.Parse(newStore(t, nil).url))(t)
	target := at.Host
	listener := is.Value(net.Listen("tcp", "127.0.0.1:0"))(t)
	t.Cleanup(func() { listener.Close() })
	at.Host = listener.Addr().String()
	var refused atomic.Int32
	go func() {
		for {
			client, err := listener.Accept()
			if err != nil {
				return
			}
			go func() {
				defer client.Close()
				if refused.Add(1) <= refusals {
					refuse(client)
					return
				}
				server, err := net.Dial("tcp", target)
				if err != nil {
					return
				}
				defer server.Close()
				go func() { _, _ = io.Copy(server, client); server.Close() }()
				_, _ = io.Copy(client, server)
			}()
		}
	}()
	cfg := configOf(at.String(), nil)
	cfg.Wait = wait
	storetest.Close(t, is.Value(Open(t.Context(), cfg))(t))
	if n := refused.Load(); n <= refusals {
		t.Errorf("the store opened after %d connections", n)
	}
}

// refuseToStart answers a startup message as a Postgres that is recovering.
func refuseToStart(client net.Conn) {
	var length [4]byte
	if _, err := io.ReadFull(client, length[:]); err != nil {
		return
	}
	_, _ = io.CopyN(io.Discard, client, int64(binary.BigEndian.Uint32(length[:]))-4)
	const fields = "SFATAL\x00VFATAL\x00C57P03\x00Mthe database system is in recovery mode\x00\x00"
	_, _ = client.Write(append(binary.BigEndian.AppendUint32([]byte{'E'}, uint32(4+len(fields))), fields...))
}
