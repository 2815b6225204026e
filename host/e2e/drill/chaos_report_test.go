//go:build !race

package drill

import (
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"

	"assay/host/e2e/chaos"
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

// stopped reports whether a call's host was stopped meanwhile.
func (r *chaosRun) stopped(c *chaos.Call) bool { return r.gone(c, stopOfHost) }

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
			c.Began.Before(fault.ended.Add(aftermath)) && !r.stopped(c) {
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
