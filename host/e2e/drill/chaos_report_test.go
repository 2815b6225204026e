//go:build !race

package drill

import (
	"context"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"

	"assay/host/e2e/chaos"
	"assay/host/hosttest"
	"assay/registry/expect"
)

// resultsFile is where long suites write what they found.
const resultsFile = "../../../docs/results.md"

// report describes the run.
func (r *chaosRun) report(records, differences int) string {
	statuses, checks := map[int]int{}, 0
	for _, c := range r.history.Calls {
		statuses[c.Status]++
		checks += len(c.Items)
	}
	var b strings.Builder
	fmt.Fprintf(&b, "`just chaos %v %d`: %d hosts, %d requests for %d checks in %.0f s", *drillFor, r.seed,
		len(r.hosts), len(r.history.Calls), checks, time.Since(r.began).Seconds())
	separator := ". Answers: "
	for _, status := range slices.Sorted(maps.Keys(statuses)) {
		name := fmt.Sprint(status)
		if status == 0 {
			name = "no answer"
		}
		fmt.Fprintf(&b, "%s%s %d", separator, name, statuses[status])
		separator = ", "
	}
	fmt.Fprintf(&b, ".\n\n%d records, %d erasures, %d revoked keys, %d webhook deliveries.\n\n**%d differences.**\n\n",
		records, len(r.history.Erasures), len(r.history.Revocations), len(r.history.Deliveries), differences)
	b.WriteString("The longest pause is the longest time without an answer from the hosts that the fault leaves " +
		"alone, or from all hosts if it breaks Postgres. A host is back with its first answer after the fault's end." +
		"\n\n| fault | times | longest pause, median | most | slowest refusal | hosts back after, most |\n" +
		"|---|---|---|---|---|---|\n")
	for _, kind := range slices.Sorted(maps.Keys(r.brokenTimes())) {
		times := r.brokenTimes()[kind]
		pauses := make([]time.Duration, len(times))
		var refusal, back time.Duration
		for i, fault := range times {
			pauses[i] = r.longestPause(fault)
			refusal, back = max(refusal, r.slowestRefusal(fault)), max(back, r.back(fault))
		}
		slices.Sort(pauses)
		fmt.Fprintf(&b, "| %s | %d | %s | %s | %s | %s |\n", kind, len(times), inSeconds(pauses[len(pauses)/2]),
			inSeconds(pauses[len(pauses)-1]), inSeconds(refusal), inSeconds(back))
	}
	return b.String()
}

func inSeconds(d time.Duration) string { return fmt.Sprintf("%.2f s", d.Seconds()) }

// brokenTimes returns the faults by kind. Two at once end together.
func (r *chaosRun) brokenTimes() map[string][]brokenTime {
	kinds := map[string][]brokenTime{}
	for _, fault := range r.broken {
		whole := fault
		for _, other := range r.broken {
			if other != fault && other.began.Before(fault.ended) && other.ended.After(fault.began) {
				whole = brokenTime{kind: "two at once", host: everything, began: fault.began, ended: fault.ended}
				if other.ended.After(whole.ended) {
					whole.ended = other.ended
				}
			}
		}
		kinds[whole.kind] = append(kinds[whole.kind], whole)
	}
	return kinds
}

// aftermath is how long after a fault its consequences are measured. No other fault begins until then.
const aftermath = 2 * time.Second

// gone reports whether a call's host had a fault of a kind meanwhile.
func (r *chaosRun) gone(c *chaos.Call, kind string) bool {
	return slices.ContainsFunc(r.broken, func(f brokenTime) bool {
		return f.kind == kind && f.host == c.Host && c.Began.Before(f.ended) && c.Ended.After(f.began)
	})
}

// longestPause returns the longest time without an answer during a fault and its aftermath.
func (r *chaosRun) longestPause(fault brokenTime) (longest time.Duration) {
	ends := answers(r.history.Calls, fault.host)
	for i, end := range ends[1:] {
		if end.After(fault.began) && ends[i].Before(fault.ended.Add(aftermath)) {
			longest = max(longest, end.Sub(ends[i]))
		}
	}
	return longest
}

// slowestRefusal returns how long the slowest 503 took that began during a fault, from a host that was not stopped.
func (r *chaosRun) slowestRefusal(fault brokenTime) (slowest time.Duration) {
	for _, c := range r.history.Calls {
		if c.Status == http.StatusServiceUnavailable && c.Began.After(fault.began) &&
			c.Began.Before(fault.ended.Add(aftermath)) && !r.gone(c, stopOfHost) {
			slowest = max(slowest, c.Ended.Sub(c.Began))
		}
	}
	return slowest
}

// back returns how long after a fault's end the last host answered again.
func (r *chaosRun) back(fault brokenTime) (last time.Duration) {
	for host := range r.hosts {
		first := time.Hour
		for _, c := range r.history.Calls {
			if c.Host == host && c.Status == http.StatusOK && c.Began.After(fault.ended) {
				first = min(first, c.Ended.Sub(fault.ended))
			}
		}
		last = max(last, first)
	}
	return last
}

// Reasons in the answer of /readyz.
const (
	notResponding = "does not respond"
	onStandby     = "is a standby"
	readOnly      = "is read-only"
	outOfSpace    = "is out of space"
)

// demote makes Postgres a standby that replays what it has, until during returns.
func (r *chaosRun) demote(ctx context.Context, during func()) {
	expect.NoError(r, r.cluster.Close(context.WithoutCancel(ctx)))
	expect.NoError(r, os.WriteFile(filepath.Join(r.data(), "standby.signal"), nil, 0o644))
	r.openPostgres()
	during()
	r.must(ctx, "SELECT pg_promote()")
}

func (r *chaosRun) forbidWrites(ctx context.Context, during func()) {
	set := func(to string) {
		r.must(ctx, "SET default_transaction_read_only = off", "ALTER SYSTEM SET default_transaction_read_only = "+to,
			"SELECT pg_reload_conf()")
	}
	set("on")
	during()
	set("off")
}

// refuseRecords fails every record with the error of a full disk.
func (r *chaosRun) refuseRecords(ctx context.Context, during func()) {
	r.must(ctx, `CREATE FUNCTION full_disk() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
			RAISE EXCEPTION 'could not extend file' USING ERRCODE = 'disk_full'; END $$`,
		"CREATE TRIGGER full_disk BEFORE INSERT ON audit_records FOR EACH STATEMENT EXECUTE FUNCTION full_disk()")
	during()
	r.must(ctx, "DROP FUNCTION full_disk CASCADE")
}

// crash kills a process of Postgres, which makes it end all others and recover.
func (r *chaosRun) crash(ctx context.Context, during func()) {
	conn := expect.Value(pgx.Connect(context.WithoutCancel(ctx), r.url))(r)
	expect.NoError(r, syscall.Kill(int(conn.PgConn().PID()), syscall.SIGKILL))
	_ = conn.Close(ctx)
	during()
	expect.Until(r, "Postgres to recover", func() bool { return execute(r.Context(), r.url, "SELECT 1") == nil })
}

// killSupervised kills the Postgres of a host that has it as its private one. The host alone starts it again.
func (r *chaosRun) killSupervised(ctx context.Context, during func()) {
	host := hosttest.StartHost(r, r.dir, "")
	killed := r.postmaster()
	expect.NoError(r, syscall.Kill(killed, syscall.SIGKILL))
	during()
	expect.Until(r, "the host to start Postgres again", func() bool {
		return r.postmaster() != killed && execute(context.WithoutCancel(ctx), r.url, "SELECT 1") == nil
	})
	const said = "the private Postgres has ended, and is started again"
	expect.That(r, strings.Contains(hosttest.Logged(r.dir, said), said), "the host's log does not say that %s", said)
	host.Stop(r, syscall.SIGTERM)
}

// must runs statements on a connection, which must succeed.
func (r *chaosRun) must(ctx context.Context, statements ...string) {
	r.Helper()
	expect.NoError(r, execute(context.WithoutCancel(ctx), r.url, statements...))
}

// readyz returns the answer of a host's /readyz.
func (r *chaosRun) readyz(host int) (status int, text string) {
	h := r.hosts[host]
	h.mu.Lock()
	admin := h.process.Admin
	h.mu.Unlock()
	response, err := http.Get(admin + "/readyz")
	if err != nil {
		return 0, ""
	}
	defer response.Body.Close()
	body, _ := io.ReadAll(response.Body)
	return response.StatusCode, string(body)
}

// awaitRefusal waits until a host says why it is not ready. If no host has a database, it refuses what needs one.
func (r *chaosRun) awaitRefusal(f chaosFault, host int) {
	r.Helper()
	host = max(host, 0)
	expect.Until(r, fmt.Sprintf("%s: /readyz to name the reason", f.kind), func() bool {
		status, text := r.readyz(host)
		return status == http.StatusServiceUnavailable &&
			strings.Contains(text, `"part":"database","reason":"`+f.reason)
	})
	if !f.down {
		return
	}
	const ref, subject = "chk_01JZZZZZZZZZZZZZZZZZZZZZZZ", `{"domain":"example.com"}`
	_, key := r.load.Clients[0].Key()
	var asking sync.WaitGroup
	for _, call := range [][3]string{
		{"GET", "/api/events"}, {"POST", "/signin", "code=" + key}, {"DELETE", "/api/feedback?ref=" + ref},
		{"POST", "/api/feedback", `{"ref":"` + ref + `","label":"fraud"}`}, {"POST", "/gdpr/subject", subject},
		{"POST", "/gdpr/export", subject}, {"POST", "/gdpr/erase", subject}, {"POST", "/api/check", subject},
	} {
		url := r.hosts[host].address() + call[1]
		request := expect.Value(http.NewRequest(call[0], url, strings.NewReader(call[2])))(r)
		request.Header.Set("Authorization", "Bearer "+key)
		request.Header.Set("Content-Type", "application/json")
		if call[1] == "/signin" {
			request.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		}
		asking.Go(func() {
			response, err := http.DefaultClient.Do(request)
			expect.That(r, err == nil && response.StatusCode == http.StatusServiceUnavailable &&
				response.Header.Get("Retry-After") != "" && response.Body.Close() == nil,
				"%s %s: %v, %v, want 503 with Retry-After", call[0], call[1], err, response)
		})
	}
	asking.Wait()
}

// awaitService waits until all hosts are ready again. No answer is 500 that is not due to a doubt or a busy disk.
func (r *chaosRun) awaitService(f chaosFault, b brokenTime) {
	r.Helper()
	for host := range r.processes() {
		if b.host == host || b.host == everything {
			expect.Until(r, f.kind+": the host to be ready", func() bool {
				status, _ := r.readyz(host)
				return status == http.StatusOK
			})
		}
	}
	for _, c := range r.history.Since(b.began) {
		if f.certain && c.Status == http.StatusInternalServerError && c.Began.After(b.began) &&
			!strings.Contains(hosttest.Logged(r.hosts[c.Host].dir, c.Ref), hosttest.AwaitingOutcome) {
			r.Errorf("%s: a check got 500: %+v", f.kind, c)
		}
	}
}

// unanswered reports calls without an answer that no kill or stop explains, and those of the account that repeats them.
func (r *chaosRun) unanswered() {
	for _, c := range r.history.Calls {
		expect.That(r, c.Account != r.repeating.Clients[0].Account || c.Status == http.StatusOK,
			"a call that was repeated ended with %+v", c)
		if c.Status == 0 && !r.gone(c, killOfHost) && !r.gone(c, stopOfHost) {
			r.Errorf("%.1f s  host %d: no answer for %d checks after %s", c.Began.Sub(r.began).Seconds(), c.Host,
				len(c.Items), inSeconds(c.Ended.Sub(c.Began)))
		}
	}
}
