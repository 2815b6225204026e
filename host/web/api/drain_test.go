package api

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"assay/host/store/storetest"
)

// A draining server is not ready, serves open and new connections as before, and asks clients to close theirs.
func TestDrainServes(t *testing.T) {
	t.Parallel()
	s := start(t, Config{Refused: func(reason string) { t.Errorf("counted as a refusal: %s", reason) }})
	open := s.dial(t)
	reader := bufio.NewReader(open)
	ask(t, open, reader)
	s.Drain()
	if r := s.send(t, "GET", "/readyz", ""); r.status != 503 {
		t.Errorf("readyz: %d %s", r.status, r.body)
	}
	if log := s.log.String(); strings.Contains(log, "/readyz") {
		t.Errorf("load balancers that ask fill the log: %s", log)
	}
	if r := s.send(t, "GET", "/healthz", ""); r.status != 200 {
		t.Errorf("healthz: %d", r.status)
	}
	if r := s.check(t, exampleBody); r.status != 200 {
		t.Errorf("a check on a new connection: %d %s", r.status, r.body)
	}
	if r := ask(t, open, reader); r.status != 200 || !r.closes {
		t.Errorf("on an open connection: status %d, announced the end: %v", r.status, r.closes)
	}
	if _, err := reader.ReadByte(); !errors.Is(err, io.EOF) {
		t.Errorf("the connection stays open: %v", err)
	}
}

// Clients that stop using a server when it announces the end of their connection lose no request.
func TestDrainLosesNoRequest(t *testing.T) {
	t.Parallel()
	l := storetest.Must(net.Listen("tcp", "127.0.0.1:0"))(t)
	s := &site{addr: l.Addr().String(), Server: New(Config{Checker: &checker{}, Keys: keys{}, Public: &public{}})}
	served := make(chan error, 1)
	go func() { served <- s.Serve(l) }()
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
				if _, err := io.WriteString(c, head+length+"\r\n"+exampleBody); err != nil {
					t.Errorf("request %d: %v", n, err)
					return
				}
				resp, err := http.ReadResponse(r, nil)
				if err != nil {
					t.Errorf("request %d got no response: %v", n, err)
					return
				}
				if _, err := io.Copy(io.Discard, resp.Body); err != nil || resp.StatusCode != http.StatusOK {
					t.Errorf("request %d: status %d, %v", n, resp.StatusCode, err)
				}
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
	if err := s.Shutdown(context.Background()); err != nil {
		t.Errorf("Shutdown: %v", err)
	}
	if err := <-served; err != nil {
		t.Errorf("Serve: %v", err)
	}
	t.Logf("%d requests of %d clients", sent.Load(), clients)
}
