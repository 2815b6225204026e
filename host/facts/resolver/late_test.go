package resolver

import (
	"context"
	"errors"
	"fmt"
	"net"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/miekg/dns"

	"assay/host/facts/resolver/resolvertest"
	"assay/registry/expect"
)

// clock is a clock with a timer that fires when a test says so.
type clock struct {
	*expect.Clock

	started chan chan time.Time
}

func newClock() *clock {
	return &clock{expect.NewClock(time.Unix(1_800_000_000, 0)), make(chan chan time.Time, 1)}
}

func (c *clock) After(time.Duration) <-chan time.Time {
	timer := make(chan time.Time, 1)
	c.started <- timer
	return timer
}

// TestLateHost checks that a lookup without an answer is the servers' fault only if this host was in time.
func TestLateHost(t *testing.T) {
	t.Parallel()
	const patience, bit = 80 * time.Millisecond, lateness / 2
	never := time.Duration(-1)
	type testCase struct {
		sent, took time.Duration // after the lookup began
		stalled    time.Duration
		prepare    func(f *flight, now func() time.Time, due time.Time)
		late       bool
	}
	conn, far := net.Conn(nil), never
	retry := func(late time.Duration) func(*flight, func() time.Time, time.Time) {
		return func(f *flight, now func() time.Time, began time.Time) {
			at := began.Add(35 * time.Millisecond)
			f.recordSent(func() time.Time { return at }, at.Add(-late))(conn)
		}
	}
	joined := func(f *flight, now func() time.Time, began time.Time) {
		retry(time.Second)(f, now, began.Add(-time.Second))
	}
	followed := func(f *flight, now func() time.Time, _ time.Time) {
		sent := f.recordSent(now, time.Time{})
		sent(conn)
		sent(nil) // it goes on over TCP
	}
	expect.Each(t, map[string]testCase{
		"in time":                               {0, patience, far, nil, false},
		"a little late":                         {bit, patience + bit, far, nil, false},
		"joined a query sent long ago":          {-time.Second, patience, far, nil, false},
		"the query was sent late":               {lateness + bit, patience, far, nil, true},
		"the query was not sent":                {never, patience, far, nil, true},
		"the timer fired late":                  {0, patience + lateness + bit, far, nil, true},
		"the retry was sent a little late":      {0, patience, far, retry(bit), false},
		"the retry was sent late":               {0, patience, far, retry(lateness + bit), true},
		"the retry was sent late before":        {-time.Second, patience, far, joined, false},
		"this host stalled":                     {0, patience, bit, nil, false},
		"stalled, and a packet followed":        {0, patience, bit, followed, true},
		"stalled before, and a packet followed": {0, patience, far, followed, false},
	}, func(t *testing.T, tt testCase) {
		c := newClock()
		r := New(Config{Now: c.Now})
		began, f := c.Now(), &flight{}
		r.stalled.Store(new(began.Add(tt.stalled)))
		if tt.sent != never {
			f.sent.Store(new(began.Add(tt.sent)))
		}
		if tt.prepare != nil {
			tt.prepare(f, c.Now, began)
		}
		c.Add(tt.took)
		expect.Equal(t, "late", r.late(f, began, patience) || f.retriedLate(began), tt.late)
	})
}

// A query that goes on over TCP says so before it opens the connection, and again before it waits for the response.
func TestFollowingPackets(t *testing.T) {
	t.Parallel()
	server := resolvertest.Start(t, "a.example. 60 IN A 192.0.2.1")
	server.Handle("b.example", func(w dns.ResponseWriter, q *dns.Msg) {
		m := new(dns.Msg).SetReply(q)
		m.Truncated = w.RemoteAddr().Network() == "udp"
		_ = w.WriteMsg(m)
	})
	var sent []string
	expect.Value(query(t.Context(), server.Addr, Question{Name: "b.example.", Type: A}, true, func(conn net.Conn) {
		if conn == nil {
			sent = append(sent, "more")
		} else {
			sent = append(sent, conn.RemoteAddr().Network())
		}
	}))(t)
	expect.Equal(t, "what was sent", strings.Join(sent, " "), "udp more tcp")
}

// TestStall checks that a host notices that it could not run, and looks for that while queries are in progress.
func TestStall(t *testing.T) {
	t.Parallel()
	c := newClock()
	server := resolvertest.Start(t, "a.example. 60 IN A 192.0.2.1")
	r := New(Config{Servers: []string{server.Addr}, Now: c.Now})
	defer r.Close()
	expect.That(t, !r.isStalled(), "stalled while nothing is watched")
	r.ticked.Store(new(time.Now().Add(-3 * lateness)))
	expect.That(t, r.isStalled(), "a watch that has not run for long is not noticed")
	r.woke(2 * lateness)
	expect.Equal(t, "in time", r.stalled.Load(), nil)
	r.woke(2*lateness + 1)
	expect.Equal(t, "late", *r.stalled.Load(), c.Now())
	watched := func() bool {
		r.mu.Lock()
		defer r.mu.Unlock()
		return r.watched
	}
	server.Handle("b.example", func(w dns.ResponseWriter, q *dns.Msg) {
		expect.That(t, watched(), "nothing watches a query")
		_ = w.WriteMsg(new(dns.Msg).SetReply(q))
	})
	_, _ = r.Lookup(context.Background(), Question{Name: "b.example", Type: A})
	expect.Until(t, "the end of the watch", func() bool { return !watched() })
}

// TestLateTimers checks that a busy host takes its late timers neither for silence nor for servers that are down.
func TestLateTimers(t *testing.T) {
	t.Parallel()
	server, c := resolvertest.Start(t, ""), newClock()
	r := New(Config{Servers: []string{server.Addr}, RetryAfter: time.Hour, Timeout: time.Hour, Now: c.Now,
		After: c.After})
	defer r.Close()
	lookUp := func(name string) error {
		done := make(chan error, 1)
		go func() {
			done <- expect.ErrorOf(r.Lookup(context.Background(), Question{Name: name, Type: A}))
		}()
		timer := <-c.started
		c.Add(r.cfg.Patience + 2*lateness)
		timer <- c.Now()
		return <-done
	}
	for i := range 3 * timeoutsToProbe {
		name := fmt.Sprintf("n%d.example", i)
		server.Handle(name, func(dns.ResponseWriter, *dns.Msg) {})
		if err := lookUp(name); !errors.Is(err, ErrLate) || errors.Is(err, ErrUnanswered) {
			t.Fatalf("lookup of %s: %v, want %v", name, err, ErrLate)
		}
	}
	n := r.health.timeouts.Load()
	expect.That(t, n == 0 && !r.health.probing.Load(), "%d lookups count as unanswered", n)
}

// TestLateProbe checks that a probe that this host delayed does not declare a server down, and that another one does.
func TestLateProbe(t *testing.T) {
	t.Parallel()
	for delay, want := range map[time.Duration]error{0: ErrUnanswered, 2 * lateness: ErrLate} {
		c := newClock()
		now := func() time.Time { c.Add(delay); return c.Now() }
		r := New(Config{Servers: []string{"127.0.0.1:1"}, Now: now, ProbeInterval: time.Minute})
		expect.Error(t, fmt.Sprint("a probe of a closed port with a delay of ", delay), r.ask("127.0.0.1:1"), want)
		_ = r.Close()
	}
}

// TestOwnFailures checks that a lack of resources on this host is not taken for silence.
func TestOwnFailures(t *testing.T) {
	t.Parallel()
	for err, own := range map[error]bool{
		syscall.EMFILE: true, syscall.ENOBUFS: true, syscall.ECONNREFUSED: false, syscall.EHOSTUNREACH: false,
		context.DeadlineExceeded: false, errTruncated: false,
	} {
		expect.Equal(t, fmt.Sprint("isOwn of ", err), isOwn(fmt.Errorf("dialling: %w", err)), own)
	}
}

// A response that has arrived by the end of the wait counts, although this host reads it later.
func TestUnreadAnswer(t *testing.T) {
	t.Parallel()
	server := expect.Value(net.ListenPacket("udp", "127.0.0.1:0"))(t)
	defer server.Close()
	conn := expect.Value(net.Dial("udp", server.LocalAddr().String()))(t)
	defer conn.Close()
	for name, tt := range map[string]struct {
		arrived, read bool
		want          error
	}{
		"it did not arrive":  {want: ErrUnanswered},
		"it is read at last": {arrived: true, read: true},
		"it is never read":   {arrived: true, want: ErrLate},
	} {
		c := newClock()
		r := New(Config{Servers: []string{"127.0.0.1:1"}, Now: c.Now, After: c.After})
		f := &flight{trust: r.trust.Load(), done: make(chan struct{})}
		f.recordSent(c.Now, time.Time{})(conn)
		q := Question{Name: "a.example.", Type: A}
		r.flights[q] = f
		if tt.arrived {
			expect.Value(server.WriteTo([]byte("x"), conn.LocalAddr()))(t)
			for !f.unread() { // the datagram is on its way
				runtime.Gosched()
			}
		}
		done := make(chan error, 1)
		go func() { done <- expect.ErrorOf(r.Lookup(context.Background(), q)) }()
		timer := <-c.started
		c.Add(r.cfg.Patience)
		timer <- c.Now()
		if tt.arrived {
			timer := <-c.started
			if tt.read {
				f.entry.answer.Status = OK
				close(f.done)
			} else {
				timer <- c.Now()
			}
			expect.Value(conn.Read(make([]byte, 8)))(t)
		}
		expect.Error(t, name, <-done, tt.want)
		_ = r.Close()
	}
}
