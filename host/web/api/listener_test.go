package api

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"assay/registry/expect"
)

// dial opens a connection that is closed when the test ends.
func (s *site) dial(t testing.TB) net.Conn { t.Helper(); return s.dialFrom(t, "127.0.0.1") }

// dialFrom is dial from an address of this machine.
func (s *site) dialFrom(t testing.TB, from string) net.Conn {
	t.Helper()
	d := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(from)}}
	c := expect.Value(d.DialContext(t.Context(), "tcp", s.addr))(t)
	t.Cleanup(func() { _ = c.Close() })
	expect.NoError(t, c.SetDeadline(time.Now().Add(patience)))
	return c
}

// ask sends one request on an open connection and reads the response.
func ask(t *testing.T, c net.Conn, r *bufio.Reader) reply {
	t.Helper()
	expect.Value(io.WriteString(c, "GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n"))(t)
	return readReply(t, expect.Value(http.ReadResponse(r, nil))(t))
}

// One address takes half of the connections, and a trusted proxy all.
func TestConnectionsAreLimited(t *testing.T) {
	t.Parallel()
	for proxy, most := range map[string]int{"127.0.0.3/32": 2, "127.0.0.1/32": 4} {
		s := start(t, Config{MaxConnections: 4, TrustedProxies: prefixes(proxy)})
		var first net.Conn
		for range most {
			first = s.dial(t)
			ask(t, first, bufio.NewReader(first)).is(t, "a connection", 200) // so it is counted
		}
		replies := readRepliesOrReset(t, s.dial(t))
		expect.Must(t, len(replies) == 1, "one connection more got %v, want one response", replies)
		replies[0].is(t, "one connection more", 503, `"error":"`)
		if most < 4 {
			other := s.dialFrom(t, "127.0.1.2")
			ask(t, other, bufio.NewReader(other)).is(t, "another network", 200)
			expect.Equal(t, "a holder", s.listener.holder(&net.TCPAddr{IP: net.ParseIP("2001:db8:1:2::3")}),
				"2001:db8:1::/48")
			expect.NoError(t, other.Close())
		}
		expect.NoError(t, first.Close())
		expect.Until(t, "a connection to be accepted after one was closed", func() bool {
			c := s.dial(t)
			defer func() { _ = c.Close() }()
			_, err := io.WriteString(c, "GET /healthz HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
			r := readRepliesOrReset(t, c)
			return err == nil && len(r) == 1 && r[0].status == 200
		})
	}
}

// poorListener fails with errs before it accepts connections.
type poorListener struct {
	net.Listener
	errs   []error
	failed atomic.Int64
}

func (l *poorListener) Accept() (net.Conn, error) {
	if n := int(l.failed.Add(1)); n <= len(l.errs) {
		return nil, &net.OpError{Op: "accept", Err: l.errs[n-1]}
	}
	return l.Listener.Accept()
}

func TestServeSurvivesAShortageOfDescriptors(t *testing.T) {
	t.Parallel()
	l := listen(t)
	s := startOn(t, &poorListener{Listener: l, errs: []error{syscall.EMFILE, syscall.ENFILE, syscall.ECONNABORTED}},
		Config{})
	s.send(t, "GET", "/healthz", "").is(t, "answer", 200)
}

func TestAcceptStopsWaitingWhenClosed(t *testing.T) {
	t.Parallel()
	inner, errs := listen(t), make([]error, 1000)
	for i := range errs {
		errs[i] = syscall.EMFILE
	}
	l := newListener(&poorListener{Listener: inner, errs: errs}, 1, nil)
	accepted := make(chan error)
	go func() { _, err := l.Accept(); accepted <- err }()
	expect.NoError(t, l.Close())
	expect.Error(t, "Accept", <-accepted, net.ErrClosed)
}

// Running requests get their responses, new connections are refused, and idle ones are closed.
func TestShutdownDrains(t *testing.T) {
	t.Parallel()
	hold := newHolding()
	s, served := begin(t, Config{Checker: hold})
	idle := s.dial(t)
	idleReader := bufio.NewReader(idle)
	ask(t, idle, idleReader)
	const running = 5
	var conns []net.Conn
	for range running {
		c := s.dial(t)
		conns = append(conns, c)
		expect.Value(io.WriteString(c, head+length+"\r\n"+exampleBody))(t)
		<-hold.entered
	}
	stopped := make(chan error, 1)
	go func() { stopped <- s.Shutdown(context.Background()) }()
	expect.NoError(t, <-served)
	// Another test may have the port by now.
	expect.Error(t, "the listener", expect.ErrorOf(s.socket.Accept()), net.ErrClosed)
	expect.Error(t, "the idle connection", expect.ErrorOf(idleReader.ReadByte()), io.EOF)
	select {
	case err := <-stopped:
		t.Errorf("Shutdown returned before the running checks: %v", err)
	default:
	}
	close(hold.release)
	for _, c := range conns {
		replies := readReplies(t, c)
		expect.That(t, len(replies) == 1 && replies[0].status == 200 && replies[0].closes, "a running check got %v",
			replies)
	}
	expect.NoError(t, <-stopped)
}

func TestShutdownEndsWithItsContext(t *testing.T) {
	t.Parallel()
	hold := newHolding()
	s, _ := begin(t, Config{Checker: hold, Timeout: time.Hour})
	c := s.dial(t)
	expect.Value(io.WriteString(c, head+length+"\r\n"+exampleBody))(t)
	<-hold.entered
	expect.Error(t, "Shutdown", s.Shutdown(expect.Ended(t)), context.Canceled)
	// The check's context has ended too, so the check gets a response.
	replies := readReplies(t, c)
	expect.That(t, len(replies) == 1 && replies[0].status == 500, "the running check got %v", replies)
}

// Shutdown may be called before Serve, and after Serve has begun but before fasthttp knows the listener.
func TestShutdownAroundTheStart(t *testing.T) {
	t.Parallel()
	for _, begun := range []bool{false, true} {
		l, s := listen(t), New(Config{Checker: &checker{}, Keys: keys{}, Public: &public{}})
		if begun {
			s.listener = newListener(l, 1, nil)
		}
		expect.NoError(t, s.Shutdown(context.Background()))
		if !begun {
			expect.NoError(t, s.Serve(l))
		}
		expect.Error(t, "Accept", expect.ErrorOf(l.Accept()), net.ErrClosed)
	}
}

func TestConnectionsCloseOnce(t *testing.T) {
	t.Parallel()
	inner, _ := net.Pipe()
	times := 0
	c := &conn{Conn: inner, closed: func() { times++ }}
	expect.NoError(t, errors.Join(c.Close(), c.Close()))
	expect.Equal(t, "closed was called", times, 1)
}

func TestWorkEndsWithTheTimeout(t *testing.T) {
	t.Parallel()
	hold := newHolding()
	s := start(t, Config{Checker: hold, Timeout: time.Millisecond})
	go func() { <-hold.entered }()
	r := s.check(t, exampleBody)
	expect.That(t, r.status == 500 && r.failure(t).Ref == knownRef, "status %d: %s", r.status, r.body)
}

// A draining server is not ready, serves open and new connections as before, and asks clients to close theirs.
func TestDrainServes(t *testing.T) {
	t.Parallel()
	s := start(t, Config{Refused: func(reason string) { t.Errorf("counted as a refusal: %s", reason) }})
	open := s.dial(t)
	reader := bufio.NewReader(open)
	ask(t, open, reader)
	s.Drain()
	s.send(t, "GET", "/readyz", "").is(t, "readyz", 503)
	expect.That(t, !strings.Contains(s.log.String(), "/readyz"), "load balancers that ask fill the log")
	s.send(t, "GET", "/healthz", "").is(t, "healthz", 200)
	s.check(t, exampleBody).is(t, "a check on a new connection", 200)
	r := ask(t, open, reader)
	expect.That(t, r.status == 200 && r.closes, "on an open connection: status %d, announced the end: %v", r.status,
		r.closes)
	expect.Error(t, "the connection stays open", expect.ErrorOf(reader.ReadByte()), io.EOF)
}

// Clients that stop using a server when it announces the end of their connection lose no request.
func TestDrainLosesNoRequest(t *testing.T) {
	t.Parallel()
	s, served := begin(t, Config{})
	const clients, atLeast = 16, 50
	var warm, left sync.WaitGroup
	var sent atomic.Int64
	warm.Add(clients)
	for range clients {
		c := s.dial(t)
		left.Go(func() {
			r := bufio.NewReader(c)
			for n := 1; ; n++ { // the connection's deadline ends it
				sent.Add(1)
				_, failed := io.WriteString(c, head+length+"\r\n"+exampleBody)
				resp, err := http.ReadResponse(r, nil)
				if err = errors.Join(failed, err); err != nil {
					t.Errorf("request %d got no response: %v", n, err)
					return
				}
				_, err = io.Copy(io.Discard, resp.Body)
				expect.That(t, err == nil && resp.StatusCode == http.StatusOK, "request %d: status %d, %v", n,
					resp.StatusCode, err)
				if n == atLeast {
					warm.Done()
				}
				if resp.Close {
					if n < atLeast {
						t.Errorf("the connection ends after %d requests, before the drain", n)
						warm.Done()
					}
					return
				}
			}
		})
	}
	warm.Wait()
	s.Drain()
	left.Wait()
	expect.NoError(t, errors.Join(s.Shutdown(context.Background()), <-served))
	t.Logf("%d requests of %d clients", sent.Load(), clients)
}

// A client that never reads the answers loses its connection at the write deadline, once the buffers are full.
func TestUnreadAnswersEndTheConnection(t *testing.T) {
	t.Parallel()
	c := start(t, Config{WriteTimeout: 300 * time.Millisecond, IdleTimeout: time.Hour}).dial(t)
	request := []byte(strings.Repeat("GET /openapi.json HTTP/1.1\r\nHost: a\r\n\r\n", 100))
	for {
		if _, err := c.Write(request); err != nil {
			expect.That(t, !errors.Is(err, os.ErrDeadlineExceeded), "the connection stays open")
			return
		}
	}
}
