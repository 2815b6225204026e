package load

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"assay/host/entity"
	"assay/host/hosttest"
	"assay/host/measure/bench"
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
