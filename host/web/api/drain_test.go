package api

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"assay/registry/expect"
)

// A draining server is not ready, serves open and new connections as before, and asks clients to close theirs.
func TestDrainServes(t *testing.T) {
	t.Parallel()
	s := start(t, Config{Refused: func(reason string) { t.Errorf("counted as a refusal: %s", reason) }})
	open := s.dial(t)
	reader := bufio.NewReader(open)
	ask(t, open, reader)
	s.Drain()
	s.send(t, "GET", "/readyz", "").is(t, "readyz", 503)
	log := s.log.String()
	expect.That(t, !strings.Contains(log, "/readyz"), "load balancers that ask fill the log: %s", log)
	s.send(t, "GET", "/healthz", "").is(t, "healthz", 200)
	s.check(t, exampleBody).is(t, "a check on a new connection", 200)
	if r := ask(t, open, reader); r.status != 200 || !r.closes {
		t.Errorf("on an open connection: status %d, announced the end: %v", r.status, r.closes)
	}
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
	expect.NoError(t, errors.Join(s.Shutdown(context.Background()), <-served))
	t.Logf("%d requests of %d clients", sent.Load(), clients)
}
