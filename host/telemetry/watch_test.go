package telemetry

import (
	"database/sql"
	"testing"
	"time"
)

func TestServiceMetrics(t *testing.T) {
	t.Parallel()
	m := NewMetrics()
	for range 3 {
		m.RequestAnswered("/api/check", 200, time.Millisecond)
	}
	m.RequestAnswered("/api/check", 503, time.Second)
	m.WatchServer(func() (requests, connections, refused int) { return 1, 2, 3 })
	m.WatchDatabase(func() sql.DBStats {
		return sql.DBStats{MaxOpenConnections: 5, InUse: 2, Idle: 1, WaitCount: 7,
			WaitDuration: 1500 * time.Millisecond}
	})
	ready := false
	m.WatchReady(func() bool { return ready })
	observe := m.WatchQueues()
	has(t, m, `assay_http_requests_total{code="200",route="/api/check"} 3`,
		`assay_http_requests_total{code="503",route="/api/check"} 1`, `assay_http_seconds_count{route="/api/check"} 4`,
		`assay_http_seconds_sum{route="/api/check"} 1.003`, "assay_http_requests_under_way 1",
		"assay_http_connections 2", "assay_http_connections_refused_total 3", "assay_database_connections_max 5",
		"assay_database_connections_in_use 2", "assay_database_connections_idle 1", "assay_database_waits_total 7",
		"assay_database_wait_seconds_total 1.5", "assay_ready 0", "assay_webhook_events_due 0",
		"assay_queues_read_timestamp_seconds 0")
	ready = true
	observe(Queues{EventsDue: 4, OldestDue: 90 * time.Second, Failing: 2, Graph: 6, OldestGraph: time.Second},
		time.UnixMilli(1500))
	has(t, m, "assay_ready 1", "assay_webhook_events_due 4", "assay_webhook_oldest_due_seconds 90",
		"assay_webhook_failing_endpoints 2",
		"assay_graph_contributions_waiting 6", "assay_graph_oldest_waiting_seconds 1",
		"assay_queues_read_timestamp_seconds 1.5")
}

// BenchmarkRequestAnswered measures what the metrics add to each request.
func BenchmarkRequestAnswered(b *testing.B) {
	m := NewMetrics()
	for b.Loop() {
		m.RequestAnswered("/api/check", 200, time.Millisecond)
	}
}
