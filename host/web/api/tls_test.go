package api

import (
	"bufio"
	"context"
	"crypto/tls"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"assay/host/web/certificate/certificatetest"
	"assay/host/web/refusal"
	"assay/registry/expect"
)

func selfSigned(t *testing.T) *tls.Config {
	t.Helper()
	cert, key := certificatetest.Pair(t, 1, time.Time{}, time.Now().Add(time.Hour))
	return &tls.Config{Certificates: []tls.Certificate{expect.Value(tls.X509KeyPair(cert, key))(t)},
		NextProtos: []string{"http/1.1"}}
}

var anyCertificate = &tls.Config{InsecureSkipVerify: true, NextProtos: []string{"http/1.1"}}

// dialTLS opens an encrypted connection from an address of this machine.
func (s *site) dialTLS(t *testing.T, from string) (*tls.Conn, error) {
	t.Helper()
	c := tls.Client(s.dialFrom(t, from), anyCertificate)
	return c, c.Handshake()
}

func TestTLS(t *testing.T) {
	t.Parallel()
	s := start(t, Config{TLS: selfSigned(t)})
	client := http.Client{Transport: &http.Transport{TLSClientConfig: anyCertificate.Clone(), ForceAttemptHTTP2: true}}
	defer client.CloseIdleConnections()
	for range 2 { // on one connection
		resp := expect.Value(client.Get("https://" + s.addr + "/healthz"))(t)
		r := readReply(t, resp)
		expect.That(t, r.status == 200 && resp.ProtoMajor == 1, "status %d over TLS with %s", r.status, resp.Proto)
	}
	resp := expect.Value(client.Post("https://"+s.addr+"/api/check-public", "application/json",
		strings.NewReader(exampleBody)))(t)
	readReply(t, resp).is(t, "a check without a key", 200)
	expect.Equal(t, "uses counted", s.public.uses("127.0.0.1/32"), 1)
	// What the connections of a plain port are protected from, these are too.
	c := expect.Value(s.dialTLS(t, "127.0.0.1"))(t)
	expect.Value(io.WriteString(c, "GET /healthz HTTP/1.1\nHost: x\n\n"))(t)
	r := readReplies(t, c)
	expect.That(t, len(r) == 1 && r[0].status == 400 && r[0].closes, "a head with wrong line ends: %v", r)
}

// A connection beyond the limit gets an error through TLS too.
func TestEncryptedConnectionsAreLimited(t *testing.T) {
	t.Parallel()
	s := start(t, Config{TLS: selfSigned(t), MaxConnections: 1})
	first := expect.Value(s.dialTLS(t, "127.0.0.1"))(t)
	ask(t, first, bufio.NewReader(first)).is(t, "the first connection", 200)
	second := expect.Value(s.dialTLS(t, "127.0.0.1"))(t)
	expect.Value(io.WriteString(second, "GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n"))(t)
	r := readReplies(t, second)
	expect.Must(t, len(r) == 1 && r[0].closes, "the second connection got %v, want one response", r)
	r[0].is(t, "the second connection", 503, refusal.Connections)
}

func TestPlainHTTPOnATLSPort(t *testing.T) {
	t.Parallel()
	began, s := time.Now(), start(t, Config{TLS: selfSigned(t)})
	for name, request := range map[string]string{
		"GET":    "GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n",
		"POST":   head + length + "\r\n" + exampleBody,
		"DELETE": "DELETE /api/feedback HTTP/1.1\r\nHost: x\r\n\r\n",
		"much":   "POST /api/check HTTP/1.1\r\n" + strings.Repeat("X: y\r\n", 10_000),
	} {
		c := s.dial(t)
		expect.Value(io.WriteString(c, request))(t)
		r := readReplies(t, c)
		expect.Must(t, len(r) == 1 && r[0].closes && strings.Contains(r[0].failure(t).Error, "https"), "%s: %v",
			name, r)
		r[0].is(t, name, 400)
	}
	c := s.dial(t)
	expect.Value(io.WriteString(c, "SSH-2.0-OpenSSH_9.2\r\n"))(t)
	got, err := io.ReadAll(resetIsEOF{c})
	expect.That(t, err == nil && !strings.Contains(string(got), "HTTP"), "another protocol: %q, %v", got, err)
	most := 1 + int(time.Since(began)/(59*time.Second)) // one a minute
	n := strings.Count(s.log.String(), "TLS handshakes fail")
	expect.That(t, n >= 1 && n <= most, "%d lines in the log about handshakes:\n%s", n, s.log.String())
}

// Handshakes that never end take up to half of the slots, and nobody waits for them.
func TestSlowHandshakes(t *testing.T) {
	t.Parallel()
	s := start(t, Config{TLS: selfSigned(t), MaxHandshakes: 4})
	silent := s.dial(t)
	half := s.dial(t) // a record is announced, and does not come
	expect.Value(half.Write(binary.BigEndian.AppendUint16([]byte{22, 3, 1}, 500)))(t)
	expect.Failure(t, expect.ErrorOf(s.dialTLS(t, "127.0.0.1")), "an address has more than its share of handshakes")
	c, err := s.dialTLS(t, "127.0.1.2")
	expect.Must(t, err == nil, "another network waits: %v", err)
	ask(t, c, bufio.NewReader(c)).is(t, "answer", 200)
	// A connection that ends in the middle of its handshake gives its slot back.
	expect.NoError(t, errors.Join(silent.Close(), half.Close()))
	expect.Until(t, "a slot to be free again", func() bool {
		c, err := s.dialTLS(t, "127.0.0.1")
		_ = c.Close()
		return err == nil
	})
}

func TestHandshakesEndInTime(t *testing.T) {
	t.Parallel()
	s := start(t, Config{TLS: selfSigned(t), ReadTimeout: 20 * time.Millisecond})
	for name, begin := range map[string]string{"silent": "", "half": "\x16\x03\x01\x01\xf4"} {
		c := s.dial(t)
		expect.Value(io.WriteString(c, begin))(t)
		got := expect.Value(io.ReadAll(resetIsEOF{c}))(t)
		expect.That(t, len(got) == 0 || got[0] == 21, "%s: %q, want an alert or nothing", name, got)
	}
}

// deaf is a connection that is never read.
type deaf struct {
	net.Conn
	ctx context.Context
}

func (d deaf) Read([]byte) (int, error) { <-d.ctx.Done(); return 0, io.EOF }

func TestHandshakeWithAClientThatDoesNotRead(t *testing.T) {
	t.Parallel()
	near, far := net.Pipe() // which keeps nothing that is not read
	defer near.Close()
	go func() { _ = tls.Client(deaf{far, t.Context()}, anyCertificate).Handshake() }()
	failed := make(chan error, 1)
	s := &secure{timeout: 20 * time.Millisecond, failed: func(err error) { failed <- err }}
	err := s.handshake(tls.Server(near, selfSigned(t)))
	expect.That(t, errors.Is(err, os.ErrDeadlineExceeded) && errors.Is(<-failed, os.ErrDeadlineExceeded),
		"the handshake ends with %v", err)
}

// A connection beyond the limit is closed at once: a response would need a handshake, for which nobody waits.
func TestRefusingDoesNotWaitForHandshakes(t *testing.T) {
	t.Parallel()
	near, far := net.Pipe()
	New(Config{TLS: selfSigned(t)}).refuseConnection(near)
	expect.Error(t, "the connection is not closed", expect.ErrorOf(far.Read(make([]byte, 1))), io.EOF)
}

func TestShutdownDuringHandshakes(t *testing.T) {
	t.Parallel()
	s, served := begin(t, Config{TLS: selfSigned(t), ReadTimeout: patience})
	idle := expect.Value(s.dialTLS(t, "127.0.0.1"))(t)
	reader := bufio.NewReader(idle)
	ask(t, idle, reader)
	silent := s.dial(t)
	stopped := make(chan error, 1)
	go func() { stopped <- s.Shutdown(context.Background()) }()
	expect.NoError(t, <-served)
	expect.NoError(t, errors.Join(silent.Close(), <-stopped))
	expect.Error(t, "the idle connection", expect.ErrorOf(reader.ReadByte()), io.EOF)
}
