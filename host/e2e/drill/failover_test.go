//go:build drill && !race

package drill

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"assay/host/e2e/chaos"
	"assay/host/hosttest"
	"assay/host/installation"
	"assay/registry/expect"
)

// TestFailover kills the leader of a Patroni cluster under load, again and again. Afterwards everything that was
// answered must be recorded and counted once. It needs Debian's patroni, etcd-server, haproxy and postgresql.
func TestFailover(t *testing.T) {
	d := newFailover(t)
	stop := startLoad(t, d.load, 8, 20*time.Millisecond)
	d.await("answers", d.answering)
	var kills []kill
	for i := range cmp.Or(*drillTimes, 10) {
		leader := d.leader()
		k := kill{machine: i%2 == 1, at: time.Now()}
		leader.kill(k.machine)
		d.await("another leader", func() bool { next := d.leader(); return next != nil && next != leader })
		d.await("the leader to accept writes", d.accepting)
		accepting := time.Now()
		d.await("answers again", func() bool {
			return d.answering() && len(answers(d.history.Since(accepting), -1)) > 0
		})
		k.back = answers(d.history.Since(accepting), -1)[0].Sub(accepting)
		k.gap = d.longestGap(k.at)
		if k.machine {
			leader.start()
		}
		d.await("two synchronous candidates", d.whole)
		kills = append(kills, k)
		t.Logf("failover %d: machine %v, %.2f s without an answer", i+1, k.machine, k.gap.Seconds())
	}
	stop()
	d.finish(kills)
}

// kill is a death of the leader: of Postgres alone, or of everything on its machine.
type kill struct {
	machine bool
	at      time.Time
	gap     time.Duration // the longest time in which no host answered
	back    time.Duration // from the first write that the new leader accepted to the first answer
}

// failover is a Patroni cluster of three nodes behind haproxy, with three hosts.
type failover struct {
	*testing.T
	results results
	dir     string
	owner   *syscall.Credential // of all processes but the hosts; nil: this process's
	nodes   []*node
	etcd    string // host:port
	url     string // of the leader's database, through haproxy
	history chaos.History
	load    *chaos.Load
	backend *installation.Backend
	hosts   []*hosttest.HostProcess
	dirs    []string
}

// await waits for a condition for longer than expect.Until does.
func (d *failover) await(what string, holds func() bool) {
	d.Helper()
	for deadline := time.Now().Add(3 * time.Minute); !holds(); {
		expect.Must(d, !time.Now().After(deadline), "timed out waiting for %s; the logs are in %s", what, d.dir)
		<-time.After(50 * time.Millisecond)
	}
}

// leader returns the node that serves as leader, or nil.
func (d *failover) leader() *node {
	for _, n := range d.nodes {
		if status, _ := n.get("/primary"); status == http.StatusOK {
			return n
		}
	}
	return nil
}

// whole reports whether the leader has a synchronous standby and another one that streams.
func (d *failover) whole() bool {
	leader := d.leader()
	if leader == nil {
		return false
	}
	synchronous, streaming := 0, 0
	_, body := leader.get("/cluster")
	var cluster struct {
		Members []struct{ Role, State string }
	}
	_ = json.Unmarshal(body, &cluster)
	for _, m := range cluster.Members {
		if m.Role == "sync_standby" {
			synchronous++
		} else if m.Role == "replica" && (m.State == "running" || m.State == "streaming") {
			streaming++
		}
	}
	return synchronous == 1 && streaming == 1
}

// answering reports whether every host answered a check within the last second.
func (d *failover) answering() bool {
	recent := map[int]bool{}
	for _, c := range d.history.Since(time.Now().Add(-time.Second)) {
		if c.Status == http.StatusOK {
			recent[c.Host] = true
		}
	}
	return len(recent) == len(d.hosts)
}

// accepting reports whether the leader commits a write, which includes a standby.
func (d *failover) accepting() bool {
	ctx, cancel := context.WithTimeout(d.Context(), time.Second)
	defer cancel()
	conn, err := pgx.Connect(ctx, d.url)
	if err != nil {
		return false
	}
	defer func() { _ = conn.Close(ctx) }()
	_, err = conn.Exec(ctx, "SELECT pg_logical_emit_message(true, 'drill', '')")
	return err == nil
}

// longestGap returns the longest time without an answer since a time.
func (d *failover) longestGap(since time.Time) (longest time.Duration) {
	ends := answers(d.history.Since(since.Add(-time.Second)), -1)
	for i := 1; i < len(ends); i++ {
		longest = max(longest, ends[i].Sub(ends[i-1]))
	}
	return longest
}

// finish waits until the hosts have nothing left to do, compares the records with the answers, and writes the results.
func (d *failover) finish(kills []kill) {
	awaitRest(d, d.url)
	for _, h := range d.hosts {
		h.Stop(d, syscall.SIGTERM)
	}
	state, differences := compare(d.T, &d.history, d.backend, d.dirs[0], d.url)
	statuses := map[int]int{}
	for _, c := range d.history.Calls {
		statuses[c.Status]++
	}
	text := fmt.Sprintf("`just drill-failover %d`: three Postgres nodes, three hosts, %d requests: %d answered, "+
		"%d refused with 503, %d with 500 and a reference, %d without an answer. %d records.\n\n"+
		"**%d differences** between the records, the counts and the answers.\n\n"+
		"| killed | times | without an answer, median | most | of it after the first write, most |\n"+
		"|---|---|---|---|---|\n",
		len(kills), len(d.history.Calls), statuses[200], statuses[503], statuses[500], statuses[0],
		len(state.Records), len(differences))
	for _, machine := range []bool{false, true} {
		var gaps []time.Duration
		var back time.Duration
		for _, k := range kills {
			if k.machine == machine {
				gaps, back = append(gaps, k.gap), max(back, k.back)
			}
		}
		if slices.Sort(gaps); len(gaps) > 0 {
			what := map[bool]string{false: "Postgres", true: "Postgres and Patroni"}[machine]
			text += fmt.Sprintf("| %s | %d | %.1f s | %.1f s | %.1f s |\n", what, len(gaps),
				gaps[len(gaps)/2].Seconds(), gaps[len(gaps)-1].Seconds(), back.Seconds())
		}
	}
	d.Log("\n" + text)
	expect.NoError(d, d.results.write("Failover", text))
}
