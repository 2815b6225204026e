package api

import (
	"errors"
	"net"
	"os"
	"strings"
	"testing"
	"time"

	"assay/registry/expect"
)

// A client that sends requests and never reads the answers loses its connection at the write deadline, once the
// buffers are full.
func TestUnreadAnswersEndTheConnection(t *testing.T) {
	t.Parallel()
	s := start(t, Config{WriteTimeout: 300 * time.Millisecond, IdleTimeout: time.Hour})
	c := expect.Value(net.Dial("tcp", s.addr))(t)
	defer c.Close()
	expect.NoError(t, c.SetDeadline(time.Now().Add(patience)))
	request := []byte(strings.Repeat("GET /openapi.json HTTP/1.1\r\nHost: a\r\n\r\n", 100))
	for {
		if _, err := c.Write(request); err != nil {
			expect.That(t, !errors.Is(err, os.ErrDeadlineExceeded), "the connection stays open")
			return
		}
	}
}
