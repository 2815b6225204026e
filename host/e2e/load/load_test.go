// Package load measures whether load changes the decisions of hosts.
package load

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"hash/fnv"
	"io"
	"maps"
	"math/rand/v2"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"assay/host/entity"
	"assay/host/facts"
	"assay/host/facts/network"
	"assay/host/facts/registration"
	"assay/host/hosttest"
	"assay/host/hosttest/inprocess"
	"assay/host/installation"
	"assay/host/measure/bench"
	"assay/host/server"
	"assay/host/store/postgres/postgrestest"
	"assay/registry"
	"assay/registry/expect"
)

var fullLoad = flag.Bool("full-load", false, "run the load tests in full length")

// loadScale returns by how much the load tests are shortened.
func loadScale() int {
	switch {
	case *fullLoad:
		return 1
	case hosttest.RaceDetector:
		return 50
	}
	return 40
}

// TestSameDecisionAtAnyLoad makes 20,000 checks (fewer without -full-load) on an idle host, and again at twice the rate
// that the host can take, while other processes use every core. Each check of the second run must give the decision of
// the first, byte for byte, or be refused with 503. Third parties' answers are replayed; the lists, the reputation
// graph, Postgres, the layers and HTTP are real.
func TestSameDecisionAtAnyLoad(t *testing.T) {
	bodies := sample(recordedBodies(t, 20_000), loadScale())
	h := startLoadHost(t, bodies)
	idle, capacity := h.answerAll(t, bodies), h.capacity(t, bodies)
	occupyCores(t)

	var refused, wrong int
	var slowest time.Duration
	hosttest.Repeat(func() bool { // a busy machine may have refused all
		refused = 0
		for i, got := range h.offer(t, bodies, 2*capacity) {
			switch {
			case got.status == http.StatusServiceUnavailable:
				refused++
				slowest = max(slowest, got.took)
			case got.status != idle[i].status || !bytes.Equal(got.body, idle[i].body):
				if wrong++; wrong <= 10 {
					t.Errorf("%s\nidle:       %d %s\nunder load: %d %s", bodies[i], idle[i].status, idle[i].body,
						got.status, got.body)
				}
			}
		}
		return refused < len(bodies) || hosttest.RaceDetector // which makes a host too slow for most
	})
	t.Logf("%d checks at %d a second, twice the capacity: %d refused, the slowest after %v; %d answered differently",
		len(bodies), 2*capacity, refused, slowest, wrong)
	expect.That(t, refused != len(bodies) || hosttest.RaceDetector, "no check was answered")
}

// occupyCores keeps every core busy with other processes until the test ends. They also end when this process dies.
func occupyCores(t *testing.T) {
	t.Helper()
	loop := fmt.Sprintf("while kill -0 %d; do i=0; while [ $i -lt 10000 ]; do i=$((i+1)); done; done", os.Getpid())
	for range runtime.NumCPU() {
		busy := exec.CommandContext(t.Context(), "sh", "-c", loop)
		expect.NoError(t, busy.Start())
		t.Cleanup(func() {
			_ = busy.Process.Kill()
			_ = busy.Wait()
		})
	}
}

// recordedBodies returns n check requests: those of testdata/answers, and others made from the same words.
func recordedBodies(t *testing.T, n int) []string {
	t.Helper()
	var bodies, words, suffixes []string
	for _, kind := range entity.Types() {
		file := filepath.Join("..", "customer", "testdata", "answers", string(kind)+".jsonl")
		for dec := json.NewDecoder(strings.NewReader(hosttest.ReadText(t, file))); dec.More(); {
			var r struct {
				Path, Body string
				Status     int
			}
			expect.NoError(t, dec.Decode(&r))
			if r.Path != "/api/check" || r.Status != http.StatusOK {
				continue
			}
			bodies = append(bodies, r.Body)
			var request struct{ Domain string }
			if json.Unmarshal([]byte(r.Body), &request) == nil && request.Domain != "" {
				name, suffix, _ := strings.Cut(request.Domain, ".")
				words = append(words, strings.FieldsFunc(name, func(r rune) bool { return r == '-' })...)
				suffixes = append(suffixes, suffix)
			}
		}
	}
	random := rand.New(rand.NewPCG(1, 2))
	pick := func(from []string) string { return from[random.IntN(len(from))] }
	valid := bench.Bodies(n)
	for i := 0; len(bodies) < n; i++ {
		domain := pick(words) + "-" + pick(words) + "." + pick(suffixes)
		switch i % 4 {
		case 0, 1:
			bodies = append(bodies, fmt.Sprintf(`{"domain":%q}`, domain))
		case 2:
			bodies = append(bodies, fmt.Sprintf(`{"email":%q}`, pick(words)+fmt.Sprint(random.IntN(100))+"@"+domain))
		case 3:
			bodies = append(bodies, string(valid[i]))
		}
	}
	return bodies[:n]
}

// sample returns every n-th element.
func sample[T any](all []T, n int) (some []T) {
	for i := 0; i < len(all); i += n {
		some = append(some, all[i])
	}
	return some
}

// loadHost is a host in this process whose third parties' answers are replayed.
type loadHost struct {
	*installation.Backend
	dir, url, admin, key string
	client               *http.Client
}

// startLoadHost starts a host that knows lists, registrations and a reputation graph of some of the checked values.
func startLoadHost(t *testing.T, bodies []string) *loadHost {
	t.Helper()
	dir, database := hosttest.DataDir(t), postgrestest.Database(t)
	h := &loadHost{Backend: hosttest.OpenStore(t, dir, database), dir: dir, client: &http.Client{
		Transport: &http.Transport{MaxIdleConnsPerHost: 512}, Timeout: time.Minute}}
	listed := slices.Collect(func(yield func(string) bool) {
		for i, body := range bodies {
			var request struct{ Domain string }
			if json.Unmarshal([]byte(body), &request) == nil && request.Domain != "" && i%17 == 0 &&
				!yield(request.Domain) {
				return
			}
		}
	})
	list := filepath.Join(t.TempDir(), "list.txt")
	expect.NoError(t, os.WriteFile(list, []byte(strings.Join(listed, "\n")+"\n"), 0o600))
	hosttest.Output(t, dir, database, "feeds", "import", list, "--name", "Test", "--kind", "bad", "--category",
		"phishing")

	cfg := &installation.Config{Listen: "127.0.0.1:0", DataDir: dir, DatabaseURL: database,
		DNS: []string{installation.Off}, RDAPURL: installation.Off}
	serve := server.Options{LedgerBatch: 256, ThirdParties: []facts.Source{
		replayed{"dns", network.DNS{}.Table()}, replayed{"net", (&network.Net{}).Table()},
		replayed{"rdap", (&registration.Source{}).Table()},
	}}
	h.url, h.admin, _ = inprocess.Serve(t, serve, cfg)
	h.forgetHistory(t)

	// Three customers made all votes that the reputation graph counts for these values, so later checks change none.
	const votes = 10
	seeds := sample(slices.DeleteFunc(listed, func(domain string) bool { return strings.Count(domain, ".") > 1 }), 20)
	for range 3 {
		h.key = expect.Value(installation.IssueKey(t.Context(), h.Store, installation.Unlimited(), "test"))(t).Secret
		for _, domain := range seeds {
			for range votes {
				r := h.answer(fmt.Sprintf(`{"domain":%q}`, domain))
				expect.Must(t, r.status == http.StatusOK, "checking %s: %d %s", domain, r.status, r.body)
			}
		}
	}
	return h
}

// forgetHistory activates the lineup without the layer that counts earlier checks of the same value.
func (h *loadHost) forgetHistory(t *testing.T) {
	t.Helper()
	active := expect.Value(h.Store.ActiveLineup(t.Context()))(t)
	active.Lineup.Layers = slices.DeleteFunc(active.Lineup.Layers, func(l registry.LineupLayer) bool {
		name, _, _ := l.Ref()
		return name == "history"
	})
	revision := expect.Value(hosttest.ActivateLineup(t.Context(), h.Backend, h.dir, active.Lineup))(t)
	expect.Until(t, "the revision to be in force", func() bool {
		page := expect.Value(hosttest.Scrape(t.Context(), h.admin))(t)
		return hosttest.MetricOf(page, "assay_lineup_revision") == float64(revision)
	})
}

// reply is a host's response without the fields that differ between equal decisions.
type reply struct {
	status int
	body   []byte
	took   time.Duration
}

var volatileFields = regexp.MustCompile(`"(timestamp|ref|request_id)":"[^"]*"`)

// post makes one check. If the connection breaks, the status is 0.
func (h *loadHost) post(body string) reply {
	began := time.Now()
	request, err := http.NewRequest(http.MethodPost, h.url+"/api/check", strings.NewReader(body))
	if err != nil {
		return reply{body: []byte(err.Error())}
	}
	request.Header.Set("Authorization", "Bearer "+h.key)
	request.Header.Set("Content-Type", "application/json")
	var text []byte
	response, err := h.client.Do(request)
	if err == nil {
		defer response.Body.Close()
		text, err = io.ReadAll(response.Body)
	}
	if err != nil {
		return reply{body: []byte(err.Error())}
	}
	return reply{response.StatusCode, volatileFields.ReplaceAll(text, nil), time.Since(began)}
}

// answer repeats a check while it is refused.
func (h *loadHost) answer(body string) (r reply) {
	hosttest.UntilAccepted(func() int {
		r = h.post(body)
		return r.status
	})
	return r
}

// answerAll makes the checks, a few at a time.
func (h *loadHost) answerAll(t *testing.T, bodies []string) []reply {
	t.Helper()
	replies := make([]reply, len(bodies))
	var next atomic.Int64
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for i := int(next.Add(1)) - 1; i < len(bodies); i = int(next.Add(1)) - 1 {
				replies[i] = h.answer(bodies[i])
			}
		})
	}
	wg.Wait()
	for i, r := range replies {
		expect.Must(t, r.status == http.StatusOK || r.status == http.StatusBadRequest, "%s: %d %s", bodies[i], r.status,
			r.body)
	}
	return replies
}

// capacity returns the checks per second that the host answers on a machine that is otherwise idle.
func (h *loadHost) capacity(t *testing.T, bodies []string) int {
	t.Helper()
	target := bench.Target{URL: h.url + "/api/check", Keys: []string{h.key}}
	for _, body := range bodies {
		target.Bodies = append(target.Bodies, []byte(body))
	}
	return max(1, int(expect.Value(bench.Saturate(t.Context(), target, 64, 2*time.Second))(t).PerSecond))
}

// offer sends the checks at a fixed rate, whether or not earlier ones have finished.
func (h *loadHost) offer(t *testing.T, bodies []string, rate int) []reply {
	t.Helper()
	replies, due := make([]reply, len(bodies)), time.NewTicker(10*time.Millisecond)
	defer due.Stop()
	began := time.Now()
	var wg sync.WaitGroup
	for sent := 0; sent < len(bodies); {
		<-due.C
		for end := min(len(bodies), int(time.Since(began).Seconds()*float64(rate))); sent < end; sent++ {
			i := sent
			wg.Go(func() { replies[i] = h.post(bodies[i]) })
		}
	}
	wg.Wait()
	return replies
}

// replayed is a source of third parties' answers, which depend on the entity alone. Some never come.
type replayed struct {
	name  string
	table []entity.Fact
}

func (r replayed) Name() string         { return r.name }
func (r replayed) Table() []entity.Fact { return r.table }

func (r replayed) Observe(_ context.Context, e entity.Entity, wants func(string) bool) (entity.Facts, error) {
	hash := fnv.New64a()
	fmt.Fprint(hash, r.name, e.Type, e.Value)
	n := hash.Sum64()
	if n%10 == 0 {
		return nil, facts.ErrUnanswered
	}
	found := entity.Facts{}
	for i, f := range r.table {
		if wants(f.Name) && f.Example != "" && n>>(8+i%48)&1 == 1 {
			found[f.Name] = f.Example
		}
	}
	// Shared addresses and name servers would link all entities in the reputation graph.
	maps.DeleteFunc(found, func(name, _ string) bool {
		return slices.Contains([]string{"dns.a", "dns.aaaa", "dns.ns", "dns.mx"}, name)
	})
	return found, nil
}

func TestMain(m *testing.M) { os.Exit(hosttest.Main(m)) }
