package operation

import (
	"strings"
	"sync"
	"testing"
	"time"

	"assay/host/hosttest"
	"assay/host/store/storetest"
	"assay/registry/expect"
)

// TestIdleHosts counts what idle hosts on 32 chains ask of the database. Ten of them would send fewer than 40
// statements a second in all, and each added one none that looks for contributions to the graph, events or privacy
// requests: they take turns.
func TestIdleHosts(t *testing.T) {
	t.Parallel()
	const hosts, length = 4, 15 * time.Second
	f := hosttest.NewFleet(t, hosts)
	_, err := f.Conn.Exec(t.Context(), `INSERT INTO audit_heads (chain, seq, hash)
			SELECT n, 0, sha256(convert_to('assay audit chain ' || n || ', version 1', 'UTF8'))
			FROM generate_series(1, 31) AS n;
		INSERT INTO graph_progress (chain) SELECT generate_series(1, 31)`)
	expect.NoError(t, err)
	var mu sync.Mutex
	sent := map[string]int{}
	<-time.After(3 * time.Second) // until the trees of the new chains begin, and each host knows the others
	for _, p := range f.Proxies {
		p.Set(func(statement string) storetest.Fate {
			mu.Lock()
			defer mu.Unlock()
			sent[strings.Join(strings.Fields(statement), " ")]++
			return storetest.Passes
		}, false)
	}
	<-time.After(length)
	mu.Lock()
	defer mu.Unlock()
	all := 0
	of := func(text string) (n int) {
		for statement, times := range sent {
			if strings.Contains(statement, text) {
				n += times
			}
		}
		return n
	}
	for statement, times := range sent {
		if statement != "" { // of the protocol
			all += times
			t.Logf("%d times: %.110s", times, statement)
		}
	}
	seconds := int(length / time.Second)
	expect.That(t, all > 0 && all < 40*hosts/10*seconds, "%d idle hosts sent %d statements in %d s", hosts, all,
		seconds)
	for text, most := range map[string]int{"graph_contributions": 2, "webhook_events": 5, "subject_requests": 2} {
		expect.That(t, of(text) < most*seconds, "%d hosts read %s %d times in %d s", hosts, text, of(text),
			seconds)
	}
}
