package load

import (
	"context"
	"encoding/json"
	"fmt"
	"hash/fnv"
	"io"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
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
		issued := expect.Value(installation.IssueKey(t.Context(), h.Store, installation.Unlimited(), "test"))(t)
		h.key = issued.Secret
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
	response, err := h.client.Do(request)
	if err != nil {
		return reply{body: []byte(err.Error())}
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
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
	target := bench.Target{URL: h.url + "/api/check", Key: h.key}
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
