//go:build !race

package drill

import (
	"cmp"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"assay/host/auditlog"
	"assay/host/check"
	"assay/host/hosttest"
	"assay/host/lineup/fleet"
	"assay/registry/expect"
)

// drillRecord is what the audit log says of a check.
type drillRecord struct {
	revision int64
	xmin     int64 // the transaction that recorded it
}

// verify compares the answers with the records, and both with the activations.
func (d *drill) verify() {
	records := map[string]drillRecord{}
	rows := expect.Value(d.Conn.Query(d.Context(),
		"SELECT ref, revision, xmin::text::bigint FROM audit_records WHERE kind = 'check'"))(d)
	var ref string
	var r drillRecord
	_, err := pgx.ForEachRow(rows, []any{&ref, &r.revision, &r.xmin}, func() error { records[ref] = r; return nil })
	expect.NoError(d, err)

	lineups := map[int64]drillLineup{}
	for stored, l := range d.byRef {
		lineups[stored.Revision] = l
	}
	wrong := map[string]int{}
	problem := func(format string, args ...any) {
		name, _, _ := strings.Cut(format, ":")
		if wrong[name]++; wrong[name] < 5 {
			d.Errorf(format, args...)
		}
	}
	for _, a := range d.failed {
		line := hosttest.Logged(d.Dirs[a.host], a.Ref)
		if a.Status == http.StatusInternalServerError && strings.Contains(line, hosttest.AwaitingOutcome) {
			d.doubted = append(d.doubted, a)
			continue
		}
		problem("failed: %+v\n%s", a, line)
	}
	answered := map[string]bool{}
	for _, a := range d.answers {
		r, recorded := records[a.Ref]
		l, known := lineups[r.revision]
		switch {
		case answered[a.Ref]:
			problem("answered twice: %+v", a)
		case !recorded:
			problem("not recorded: %+v", a)
		case !known:
			problem("recorded under an unknown revision: %d, %+v", r.revision, a)
		case a.Score != l.scores[a.input]:
			problem("not the score of the recorded revision: %d, %d, %+v", r.revision, l.scores[a.input], a)
		}
		answered[a.Ref] = true
		if want, settled := d.expected(a); settled && r.revision != want {
			problem("not by the revision that its host runs: %d instead of %d, %+v", r.revision, want, a)
		}
	}
	if more := len(records) - len(answered); more < 0 || more > len(d.lost)+len(d.doubted) {
		problem("recorded without an answer: %d checks, but %d connections broke and %d outcomes were unknown", more,
			len(d.lost), len(d.doubted))
	}
	for ref, r := range records {
		if !d.allowed(r) {
			problem("recorded too late: %s under revision %d", ref, r.revision)
		}
	}
	for _, a := range d.lost {
		// The limits on reading a request and writing its answer pass while a host is stopped for long.
		long := func(s span) bool { return s.ended.Sub(s.began) > fleet.SilentAfter/2 && s.overlaps(a.span) }
		if a.host == killedHost && !slices.ContainsFunc(d.deaths, a.overlaps) ||
			a.host == stoppedHost && !slices.ContainsFunc(d.stops, long) {
			problem("a connection broke: %+v", a)
		}
	}
	for name, n := range wrong {
		d.Errorf("%d times: %s", n, name)
	}
	if reports := hosttest.OutputJSON[[]auditlog.Report](d.T, d.Dir, d.Database, "audit",
		"verify"); slices.ContainsFunc(reports, func(r auditlog.Report) bool { return !r.OK }) {
		d.Errorf("audit verify: %+v", reports)
	}
}

// expected returns the revision that must have decided a check, if its host was said to run an activation before the
// check began, and the next was signed only after its answer.
func (d *drill) expected(a drillAnswer) (revision int64, settled bool) {
	i, _ := slices.BinarySearchFunc(d.steps, a.began, func(s drillStep, at time.Time) int {
		return s.ended.Compare(at)
	})
	i--
	if i < 0 || i+1 < len(d.steps) && d.steps[i+1].commits.began.Before(a.ended) ||
		!slices.ContainsFunc(d.steps[i].running, func(port string) bool { return strings.HasSuffix(a.url, ":"+port) }) {
		return 0, false
	}
	in := d.steps[i].Activation
	l := &check.Lineup{Revision: in.Lineup.Revision}
	if c := in.Canary; c != nil {
		l.Canary = &check.Canary{Lineup: &check.Lineup{Revision: c.Revision}, Percent: c.Share, Seed: c.Hash[:]}
	}
	return l.For(d.accounts[a.account].id).Revision, true
}

// allowed reports whether a record's revision was allowed when its transaction began, or in the 3 s afterwards.
func (d *drill) allowed(r drillRecord) bool {
	i, _ := slices.BinarySearchFunc(d.fences, r.xmin+1, func(f fence, xid int64) int {
		return cmp.Compare(f.xmax, xid)
	})
	return slices.ContainsFunc(d.fences[max(i-1, 0):min(i+30, len(d.fences))], func(f fence) bool {
		return slices.Contains(f.allowed, r.revision)
	})
}

// report describes the drill.
func (d *drill) report() string {
	var b strings.Builder
	settled, commits, kinds := 0, map[string][]time.Duration{}, map[string][]time.Duration{}
	var rollback time.Duration // the longest while no host was stopped or starting, until its commit
	for _, a := range d.answers {
		if _, ok := d.expected(a); ok {
			settled++
		}
	}
	for _, s := range d.steps[1:] {
		disturbed := slices.ContainsFunc(slices.Concat(d.stops, d.deaths), func(p span) bool {
			return p.overlaps(span{s.commits.began, s.ended})
		})
		kind := s.kind
		switch {
		case s.command || s.kind == pausedRollback:
			continue
		case disturbed:
			kind += ", a host stopped or starting"
		case s.deaf:
			kind += ", without notifications"
		}
		commits[kind] = append(commits[kind], s.commits.ended.Sub(s.commits.began))
		kinds[kind] = append(kinds[kind], s.ended.Sub(s.commits.ended))
		if strings.HasPrefix(s.kind, "rollback") && !disturbed {
			rollback = max(rollback, s.commits.ended.Sub(s.began))
		}
	}
	took := map[drillPhase][]time.Duration{}
	var undisturbed []time.Duration // while no command ran and no host started on the same processors
	for _, a := range d.answers {
		if a.host != steadyHost {
			continue
		}
		took[a.phase] = append(took[a.phase], a.ended.Sub(a.began))
		if a.phase == changing && !slices.ContainsFunc(d.deaths, a.overlaps) &&
			!slices.ContainsFunc(d.steps, func(s drillStep) bool { return s.command && s.overlaps(a.span) }) {
			undisturbed = append(undisturbed, a.ended.Sub(a.began))
		}
	}
	perAnswer := func(p drillPhase) string {
		return fmt.Sprintf("%.1f ms", 1000*d.used[p]/float64(max(1, len(took[p]))))
	}
	fmt.Fprintf(&b, "`just activations %d`: %d activations on three hosts, one stopped %d times, one killed %d times. "+
		"%d answers, %d refused with 503, %d with 500 and a reference because their outcome was unknown after a "+
		"second, %d failed otherwise. %d connections broke at a kill or a stop for seconds. Of %d answers, the "+
		"revision was known in advance.\n\n", *drillTimes, len(d.steps)-1, len(d.stops), len(d.deaths),
		len(d.answers), len(d.refused), len(d.doubted), len(d.failed)-len(d.doubted), len(d.lost), settled)
	fmt.Fprintf(&b, "The host that is neither stopped nor killed answered within %v (p50) and %v (p99); while no "+
		"command ran and no host started on the same processors, %v and %v; without activations, %v and %v. An "+
		"answer took %v of its processor time; without activations, %v. Its memory was %.0f MiB at the beginning "+
		"and %.0f MiB at the end.\n\n", milli(quantile(took[changing], 50)), milli(quantile(took[changing], 99)),
		milli(quantile(undisturbed, 50)), milli(quantile(undisturbed, 99)),
		milli(quantile(took[calm], 50)), milli(quantile(took[calm], 99)), perAnswer(changing), perAnswer(calm),
		d.memory[0]/(1<<20), d.memory[len(d.memory)-1]/(1<<20))
	fmt.Fprintf(&b, "The slowest rollback was committed %v after the beginning of the command's work.\n\n",
		milli(rollback))
	b.WriteString("How long the commit took, and from then on until all live hosts said that they ran it:\n\n" +
		"| activation | times | commit, median | most | in force, median | most |\n|---|---|---|---|---|---|\n")
	for _, kind := range slices.Sorted(maps.Keys(kinds)) {
		fmt.Fprintf(&b, "| %s | %d | %v | %v | %v | %v |\n", kind, len(kinds[kind]), milli(quantile(commits[kind], 50)),
			milli(quantile(commits[kind], 100)), milli(quantile(kinds[kind], 50)), milli(quantile(kinds[kind], 100)))
	}
	return b.String()
}

func milli(d time.Duration) string { return fmt.Sprintf("%.0f ms", float64(d)/1e6) }

// quantile returns a percentile, and sorts all.
func quantile(all []time.Duration, percent int) time.Duration {
	if len(all) == 0 {
		return 0
	}
	slices.Sort(all)
	return all[min(len(all)*percent/100, len(all)-1)]
}
