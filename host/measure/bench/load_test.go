package bench

import (
	"bytes"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/pprof/profile"

	"assay/registry/expect"
)

func TestRequestsRotateAccounts(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	seen := map[string]int{}
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		seen[r.Header.Get("Authorization")]++
	}))
	t.Cleanup(server.Close)
	target := Target{URL: server.URL, Keys: []string{"a", "b", "c"}, Bodies: [][]byte{[]byte("{}")}}
	expect.Value(Offer(t.Context(), target, 300, 100*time.Millisecond))(t)
	mu.Lock()
	defer mu.Unlock()
	expect.NoDiff(t, "requests by key", map[string]int{"Bearer a": 10, "Bearer b": 10, "Bearer c": 10}, seen)
}

// A host that stalls is offered requests all the same, and none fails for want of a connection.
func TestOffersAreMadeWhileAHostStalls(t *testing.T) {
	t.Parallel()
	const rate, stalled = 20, 30
	var arrived atomic.Int64
	goOn := make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		if arrived.Add(1) == stalled {
			close(goOn)
		}
		select {
		case <-goOn:
		case <-r.Context().Done():
		}
	}))
	t.Cleanup(func() { server.CloseClientConnections(); server.Close() })
	target := Target{URL: server.URL, Bodies: [][]byte{[]byte("{}")}}
	f := expect.Value(Offer(t.Context(), target, rate, 2*time.Second))(t)
	expect.That(t, f.Answered == 2*rate && f.Failed <= 0, "%d answered, %d failed (%v); want all of %d answered",
		f.Answered, f.Failed, f.Failure, 2*rate)
}

// TestAttribute checks that each sample belongs to the innermost part on its stack.
func TestAttribute(t *testing.T) {
	t.Parallel()
	p := &profile.Profile{
		SampleType: []*profile.ValueType{{Type: "samples", Unit: "count"}, {Type: "cpu", Unit: "nanoseconds"}},
	}
	add := func(d time.Duration, stack ...string) { // innermost first
		s := &profile.Sample{Value: []int64{1, int64(d)}}
		for _, name := range stack {
			f := &profile.Function{ID: uint64(len(p.Function) + 1), Name: name}
			l := &profile.Location{ID: f.ID, Line: []profile.Line{{Function: f}}}
			p.Function, p.Location = append(p.Function, f), append(p.Location, l)
			s.Location = append(s.Location, l)
		}
		p.Sample = append(p.Sample, s)
	}
	const checker = "assay/host/check.(*Checker).Check"
	add(1, "runtime._ExternalCode", "runtime._System")
	add(2, "github.com/tetratelabs/wazero/internal/engine/wazevo.entrypoint", "assay/host/sandbox.(*Plugin).Score")
	add(4, "runtime.mallocgc", "assay/host/sandbox.hostFact",
		"github.com/tetratelabs/wazero/internal/engine/wazevo.(*callEngine).call", checker)
	add(8, "runtime.mapaccess2", checker, "assay/host/web/api.(*Server).check")
	add(16, "github.com/uptrace/bun.(*DB).Query", "assay/host/store.(*Store).GraphAggregates",
		"assay/host/facts/reputation.(*batcher).drain")
	add(32, "assay/host/store.(*Store).insert", "runtime.goexit")
	add(64, "assay/host/store.(*Ledger).Append", checker)
	add(128, "runtime.futex", "runtime.mcall")
	add(256, "runtime.scanobject", "runtime.gcBgMarkWorker")
	add(512, "assay/host/web/api.(*Server).log", "assay/host/web/api.New")
	var file bytes.Buffer
	expect.NoError(t, p.Write(&file))
	got := expect.Value(Attribute(&file))(t)
	want := []PartTime{{partLogs, 512}, {partCollection, 256}, {partRest, 128}, {partLedger, 96}, {partFacts, 16},
		{partCheck, 8}, {partSandbox, 4}, {partGuest, 3}}
	expect.NoDiff(t, "result", want, got)
	expect.Failure(t, expect.ErrorOf(Attribute(strings.NewReader("no profile"))), "a text was read as a profile")
}

func TestProcessTimes(t *testing.T) {
	t.Parallel()
	if runtime.GOOS != "linux" {
		t.Skip("needs /proc")
	}
	expect.Until(t, "processor time to be used", func() bool {
		_ = make([]byte, 1<<20)
		return expect.Value(ProcessTime(os.Getpid()))(t) > 0
	})
	d := expect.Value(TimeWithin(filepath.Dir(expect.Value(os.Getwd())(t))))(t)
	expect.That(t, d != 0, "processes below the working directory's parent used no processor time")
	expect.Equal(t, "processes in an empty directory", expect.Value(TimeWithin(t.TempDir()))(t), 0)
	expect.That(t, expect.ErrorOf(ProcessTime(-1)) != nil, "a process that does not exist used no processor time")
}
