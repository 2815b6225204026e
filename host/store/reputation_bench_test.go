package store

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"assay/host/facts/reputation"
)

// BenchmarkGraphAggregates queries 1 and 64 subjects at a time in a graph of 100,000 domains under 20,000 registrable
// domains, each checked by 5 of 20 customers.
func BenchmarkGraphAggregates(b *testing.B) {
	const domains, perRegistrable, customers = 100_000, 5, 5
	s := newStore(b, nil)
	subject := func(i int) reputation.Subject {
		registrable := fmt.Sprintf("example-%d.com", i/perRegistrable)
		return reputation.Subject{
			Entity:  reputation.Node{Kind: "domain", Value: fmt.Sprintf("shop-%d.%s", i, registrable)},
			Parents: []reputation.Node{{Kind: "registrable", Value: registrable}},
		}
	}
	now := s.now().UTC()
	var sightings, links [][]any
	for i := range domains {
		sub := subject(i)
		self, parent := s.node(sub.Entity), s.node(sub.Parents[0])
		for c := range customers {
			account := fmt.Sprintf("acct_%d", (i/perRegistrable+c)%20)
			sightings = append(sightings, []any{self, account, "domain", 3, i % 7 / 6 * 3, 0, now, now})
			if i%perRegistrable == 0 {
				sightings = append(sightings, []any{parent, account, "registrable", 3 * perRegistrable, 0, 0, now, now})
			}
			links = append(links, []any{self, parent, account, 3, now}, []any{parent, self, account, 3, now})
		}
	}
	noError(b, s.inLongTx(b.Context(), func(ctx context.Context, tx pgx.Tx) error {
		_, err := tx.CopyFrom(ctx, pgx.Identifier{"graph_sightings"},
			[]string{"node", "account_id", "kind", "checks", "blocked", "reviewed", "first_seen", "last_seen"},
			pgx.CopyFromRows(sightings))
		if err != nil {
			return err
		}
		_, err = tx.CopyFrom(ctx, pgx.Identifier{"graph_edges"}, []string{"node", "other", "account_id", "checks",
			"last_seen"}, pgx.CopyFromRows(links))
		if err != nil {
			return err
		}
		return execAll(ctx, tx, "ANALYZE graph_sightings", "ANALYZE graph_edges")
	}))
	for name, batch := range map[string]int{"known/batch=1": 1, "known/batch=64": 64, "unknown/batch=64": 64} {
		b.Run(name, func(b *testing.B) {
			n, known := 0, 0
			if strings.HasPrefix(name, "unknown") {
				n = 10 * domains
			}
			began := n
			subjects := make([]reputation.Subject, batch)
			for b.Loop() {
				for i := range subjects {
					subjects[i] = subject(n/domains*domains + (n+i)*37%domains)
				}
				got := must(s.GraphAggregates(b.Context(), subjects))(b)
				for _, r := range got {
					if r.Customers == customers && r.Neighbours == perRegistrable-1 {
						known++
					}
				}
				n += batch
			}
			b.ReportMetric(float64(b.Elapsed().Microseconds())/float64(n-began), "us/subject")
			b.ReportMetric(float64(known)/float64(n-began), "known")
		})
	}
}
