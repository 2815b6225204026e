package customer

import (
	"context"
	"errors"
	"net"
	"path/filepath"
	"strings"
	"testing"

	"github.com/valyala/fasthttp"

	"assay/host/check"
	"assay/host/facts"
	"assay/host/facts/feed"
	"assay/host/facts/reputation"
	"assay/host/hosttest"
	"assay/host/installation"
	lineups "assay/host/lineup"
	"assay/host/lineup/replay"
	"assay/host/measure/bench"
	"assay/host/telemetry"
	"assay/host/web/api"
	"assay/registry"
)

// BenchmarkCheck measures a check by the default lineup over HTTP, without a database. The time and the allocations of
// the client are included.
func BenchmarkCheck(b *testing.B) {
	document, err := registry.DefaultLineup()
	if err != nil {
		b.Fatal(err)
	}
	var names []string
	for _, l := range document.Layers {
		name, _, _ := strings.Cut(l.Layer, "@")
		names = append(names, name)
	}
	live := &check.Live{}
	live.Swap(check.NewLineup(1, lineups.ByType(document.Bias), check.Bands(document.Bands),
		hosttest.Members(b, names)))
	log, file, err := telemetry.OpenLog(filepath.Join(b.TempDir(), "logs"), b.Output())
	if err != nil {
		b.Fatal(err)
	}
	defer file.Close()
	similar := reputation.NewSimilar(emptyReputation{}, log)
	if err := similar.Load(b.Context()); err != nil {
		b.Fatal(err)
	}
	checker := installation.NewChecker(live, emptyLedger{},
		&telemetry.Observer{Metrics: telemetry.NewMetrics(), Logger: log})
	checker.Collector = facts.NewCollector(log, reputation.NewFeed(emptyReputation{}, func() bool { return true }),
		reputation.NewGraph(emptyReputation{}), similar)
	recent := replay.NewRing(replay.DefaultChecks, replay.DefaultBytes)
	checker.Memory = recent
	server := api.New(api.Config{Checker: checker, Keys: anyKey{}, Logger: log})
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- server.Serve(l) }()
	defer func() {
		if err := errors.Join(server.Shutdown(context.Background()), <-served); err != nil {
			b.Error(err)
		}
	}()
	bodies := bench.Domains(1 << 12)
	client := &fasthttp.Client{}
	var request fasthttp.Request
	var response fasthttp.Response
	request.SetRequestURI("http://" + l.Addr().String() + "/api/check")
	request.Header.SetMethod("POST")
	request.Header.SetContentType("application/json")
	request.Header.Set("Authorization", "Bearer x")
	b.ReportAllocs()
	for n := 0; b.Loop(); n++ {
		request.SetBodyRaw(bodies[n%len(bodies)])
		if err := client.Do(&request, &response); err != nil || response.StatusCode() != 200 {
			b.Fatalf("%v: %s", err, response.Body())
		}
	}
	checks, bytes := recent.Size()
	b.ReportMetric(float64(bytes)/float64(checks), "remembered-bytes/check")
}

// anyKey remembers every key, as a store does while its cache holds.
type anyKey struct{}

func (k anyKey) Recall(presented string) (check.Caller, bool, error) {
	c, err := k.Authenticate(context.Background(), presented)
	return c, true, err
}

func (anyKey) Authenticate(context.Context, string) (check.Caller, error) {
	plan, _ := check.PlanNamed("pro")
	return check.Caller{Account: "acct_1", Key: "key_1", Plan: plan}, nil
}

type emptyLedger struct{}

func (emptyLedger) Append(_ context.Context, records ...check.Record) error {
	for i := range records {
		records[i].Pseudonym = make([]byte, 32)
	}
	return nil
}

// emptyReputation is a store without lists and sightings.
type emptyReputation struct{}

func (emptyReputation) Feeds(context.Context) ([]feed.List, error) { return nil, nil }
func (emptyReputation) FeedNames(context.Context, int, []byte, int) ([]reputation.ListedName, error) {
	return nil, nil
}
func (emptyReputation) Listings(context.Context, []reputation.Node) ([]reputation.Listing, error) {
	return nil, nil
}
func (emptyReputation) GraphAggregates(_ context.Context, s []reputation.Subject) ([]reputation.Aggregate, error) {
	return make([]reputation.Aggregate, len(s)), nil
}
