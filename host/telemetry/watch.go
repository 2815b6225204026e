package telemetry

import (
	"database/sql"
	"runtime"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"assay/host/lineup"
)

type httpLabels struct {
	route string
	code  int
}

// RequestAnswered records a response to a customer's request. The caller must bound the routes and the codes.
func (m *Metrics) RequestAnswered(route string, code int, took time.Duration) {
	m.ofHTTP.get(httpLabels{route, code}, func(httpLabels) *timed {
		return &timed{m.httpRequests.WithLabelValues(route, strconv.Itoa(code)), m.httpSeconds.WithLabelValues(route)}
	}).count(took)
}

// WatchReady adds the metric of the host's readiness, as in /readyz. It must be called at most once.
func (m *Metrics) WatchReady(ready func() bool) {
	m.gauge("assay_ready", "1 if the host can answer checks, 0 if it cannot or is draining.", func() float64 {
		if ready() {
			return 1
		}
		return 0
	})
}

// WatchFile adds the metric of a file in the data directory. It must be called at most once for each file.
func (m *Metrics) WatchFile(name string, unwritten func() []string) {
	m.registry.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "assay_file_unwritten",
		Help: "1 if a file in the data directory cannot be written: log (its lines are lost) or answered (what this " +
			"host answered for last, see docs/operations.md).",
		ConstLabels: prometheus.Labels{"file": name},
	}, func() float64 { return float64(len(unwritten())) }))
}

// WatchAudit adds the metric of the audit log's upkeep. It must be called at most once.
func (m *Metrics) WatchAudit(problems func() int) {
	m.gauge("assay_audit_problems", "Problems when this host last signed checkpoints, pruned the audit log and asked "+
		"witnesses, such as a damaged chain or a witness that cosigned records that the database lacks.",
		func() float64 { return float64(problems()) })
}

// WatchWitnesses adds the metric of the named witnesses. It must be called at most once.
func (m *Metrics) WatchWitnesses(names []string, waiting func(name string) time.Duration) {
	for _, name := range names {
		m.registry.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "assay_witness_waiting_seconds",
			Help:        "How long audit log checkpoints have waited for the witness's signature on this host, or 0.",
			ConstLabels: prometheus.Labels{"witness": name},
		}, func() float64 { return waiting(name).Seconds() }))
	}
}

// WatchServer adds the metrics of the customers' requests and connections. It must be called at most once.
func (m *Metrics) WatchServer(load func() (requests, connections, refused int)) {
	m.gauge("assay_http_requests_under_way", "Customers' requests that are not answered yet.",
		func() float64 { requests, _, _ := load(); return float64(requests) })
	m.gauge("assay_http_connections", "Customers' open connections.",
		func() float64 { _, connections, _ := load(); return float64(connections) })
	m.counter("assay_http_connections_refused_total", "Connections refused because too many were open.",
		func() float64 { _, _, refused := load(); return float64(refused) })
}

// WatchDatabase adds the metrics of the pool of database connections. It must be called at most once.
func (m *Metrics) WatchDatabase(stats func() sql.DBStats) {
	m.gauge("assay_database_connections_max", "Maximum size of the connection pool that requests and jobs share. The "+
		"ledger, webhooks and notifications have their own connections.",
		func() float64 { return float64(stats().MaxOpenConnections) })
	m.gauge("assay_database_connections_in_use", "Pooled connections in use.",
		func() float64 { return float64(stats().InUse) })
	m.gauge("assay_database_connections_idle", "Pooled connections that are open and not in use.",
		func() float64 { return float64(stats().Idle) })
	m.counter("assay_database_waits_total", "How often a statement had to wait because all pooled connections were in "+
		"use.", func() float64 { return float64(stats().WaitCount) })
	m.counter("assay_database_wait_seconds_total", "Time that statements waited for a pooled connection.",
		func() float64 { return stats().WaitDuration.Seconds() })
}

// Queues counts work that waits in the database for any host.
type Queues struct {
	EventsDue   int           // webhook events whose attempt is due
	OldestDue   time.Duration // how long the oldest of them has been due
	Failing     int           // webhook endpoints whose last attempt failed
	Graph       int           // checks that are not in the reputation graph yet
	OldestGraph time.Duration // how long the oldest of them has waited
}

// WatchQueues adds the metrics of the queues in the database, which all hosts share. It must be called at most once.
// observe updates them: scrapes must not wait for the database.
func (m *Metrics) WatchQueues() (observe func(q Queues, at time.Time)) {
	type reading struct {
		Queues
		at time.Time
	}
	var last atomic.Pointer[reading]
	last.Store(&reading{})
	m.gauge("assay_webhook_events_due", "Webhook events in the database that are due, counted up to 10,000.",
		func() float64 { return float64(last.Load().EventsDue) })
	m.gauge("assay_webhook_oldest_due_seconds", "How long the oldest webhook event has been due, or 0.",
		func() float64 { return last.Load().OldestDue.Seconds() })
	m.gauge("assay_webhook_failing_endpoints", "Webhook endpoints that are enabled and whose last attempt failed.",
		func() float64 { return float64(last.Load().Failing) })
	m.gauge("assay_graph_contributions_waiting", "Recorded checks that are not in the reputation graph yet, counted "+
		"up to 10,000 batches.", func() float64 { return float64(last.Load().Graph) })
	m.gauge("assay_graph_oldest_waiting_seconds", "How long the oldest recorded check that is not in the reputation "+
		"graph has waited, or 0.",
		func() float64 { return last.Load().OldestGraph.Seconds() })
	m.gauge("assay_queues_read_timestamp_seconds", "When this host last read the queues in the database, or 0. It "+
		"reads them every 15 s.", func() float64 {
		if at := last.Load().at; !at.IsZero() {
			return float64(at.UnixMilli()) / 1000
		}
		return 0
	})
	return func(q Queues, at time.Time) { last.Store(&reading{q, at}) }
}

// WatchBuild adds the metric of the program's build. It must be called at most once.
func (m *Metrics) WatchBuild(version, revision string) {
	m.registry.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "assay_build_info",
		Help:        "The program's version, revision and Go version. The value is always 1.",
		ConstLabels: prometheus.Labels{"version": version, "revision": revision, "go": runtime.Version()},
	}, func() float64 { return 1 }))
}

func (m *Metrics) counter(name, help string, value func() float64) {
	m.registry.MustRegister(prometheus.NewCounterFunc(prometheus.CounterOpts{Name: name, Help: help}, value))
}

// WatchLineup adds the metrics of a lineup follower. It must be called at most once.
func (m *Metrics) WatchLineup(f *lineup.Follower) {
	m.gauge("assay_lineup_revision", "Lineup revision in force on this host.",
		func() float64 { return float64(f.State().Revision) })
	m.gauge("assay_lineup_canary_revision", "Lineup revision that scores for a share of the accounts, or 0.",
		func() float64 { return float64(f.State().Canary) })
	m.gauge("assay_lineup_refused_revision", "Active lineup revision if this host could not load it, or 0.",
		func() float64 { return float64(f.State().Refused) })
}

// WatchFleet adds the metrics of the hosts that share the database. It must be called at most once.
func (m *Metrics) WatchFleet(f *lineup.Follower, alive func() int) {
	m.gauge("assay_hosts", "Live hosts when this one last looked, including itself.",
		func() float64 { return float64(alive()) })
	m.gauge("assay_activation", "Number of the activation in force on this host. Hosts differ while they switch, and "+
		"if one cannot.", func() float64 { return float64(f.State().Activation) })
	m.gauge("assay_activation_refused", "Number of the activation that this host refused, or 0.",
		func() float64 { return float64(f.State().RefusedActivation) })
}

// WatchDegraded adds the metrics of the problems that /readyz lists as degraded. falseDNS lists the DNS servers among
// them. It must be called at most once.
func (m *Metrics) WatchDegraded(all, falseDNS func() []string) {
	m.gauge("assay_degraded", "Number of problems that /readyz lists as degraded.",
		func() float64 { return float64(len(all())) })
	m.gauge("assay_dns_untrusted_servers", "DNS servers that this host does not use because they give false answers.",
		func() float64 { return float64(len(falseDNS())) })
}

// WatchLookups adds the metrics of lookups, of each source by outcome. It must be called at most once.
func (m *Metrics) WatchLookups(sources, outcomes []string, count func(source, outcome int) uint64) {
	for s, source := range sources {
		for o, outcome := range outcomes {
			m.registry.MustRegister(prometheus.NewCounterFunc(prometheus.CounterOpts{Name: "assay_lookups_total",
				Help: "Lookups of facts by source and outcome: answered, pending (asked in the background, " +
					"or after a later check if too many wait), unanswered, " +
					"untrusted (a DNS server gives false answers) or failed (the check was refused).",
				ConstLabels: prometheus.Labels{"source": source, "outcome": outcome},
			}, func() float64 { return float64(count(s, o)) }))
		}
	}
}
