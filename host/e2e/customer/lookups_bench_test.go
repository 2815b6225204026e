package customer

import (
	"fmt"
	"net/http"
	"slices"
	"testing"
	"time"

	"assay/host/facts/resolver/resolvertest"
	"assay/host/hosttest"
	"assay/host/installation"
	"assay/host/store/postgres/postgrestest"
)

// BenchmarkLookups measures complete checks over HTTP of domains that the host has not seen before, with a resolver
// that responds after 20 ms and with one that never responds.
func BenchmarkLookups(b *testing.B) {
	for _, resolver := range []struct {
		name  string
		delay time.Duration
	}{{"20 ms", 20 * time.Millisecond}, {"dead", time.Hour}} {
		b.Run(resolver.name, func(b *testing.B) {
			server := resolvertest.Start(b, "")
			server.Delay(resolver.delay)
			dir, database := hosttest.DataDir(b), postgrestest.Database(b)
			host := hosttest.StartHost(b, dir, database, "--dns", server.Addr, "--rdap-url", installation.Off)
			issued, err := installation.IssueKey(b.Context(), hosttest.OpenStore(b, dir, database).Store,
				installation.Unlimited(), "bench")
			if err != nil {
				b.Fatal(err)
			}
			var took []time.Duration
			for b.Loop() {
				name := fmt.Sprintf("blumenwiese-%d.com", len(took))
				server.Add(b, name+". 300 IN A 93.184.215.14\n"+name+". 300 IN NS ns1.blumenwiese.com.\n"+name+
					". 300 IN MX 10 "+name+".")
				began := time.Now()
				if a := hosttest.Post(http.DefaultClient, host.URL, issued.Secret, `{"domain":"`+name+
					`"}`); a.Status != http.StatusOK {
					b.Fatalf("%+v", a)
				}
				took = append(took, time.Since(began))
			}
			b.ReportMetric(float64(took[0].Microseconds())/1000, "first-ms")
			slices.Sort(took)
			for _, q := range []float64{0.5, 0.99} {
				b.ReportMetric(float64(took[int(q*float64(len(took)-1))].Microseconds())/1000,
					fmt.Sprintf("p%.0f-ms", 100*q))
			}
		})
	}
}
