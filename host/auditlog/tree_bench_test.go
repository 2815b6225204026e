package auditlog

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"os"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"assay/host/audit"
	"assay/host/check"
	"assay/host/entity"
	"assay/host/store"
	"assay/host/store/postgres/postgrestest"
	"assay/host/store/storetest"
)

// benchLeaves is the size of the tree of BenchmarkProve; ASSAY_TREE_LEAVES sets another.
func benchLeaves() int64 {
	if n, err := strconv.ParseInt(os.Getenv("ASSAY_TREE_LEAVES"), 10, 64); err == nil {
		return n
	}
	return 100_000
}

// BenchmarkProve measures a proof of inclusion, with its queries, in a stored tree.
func BenchmarkProve(b *testing.B) {
	url := postgrestest.Database(b)
	s := storetest.Close(b, storetest.Must(store.Open(b.Context(), store.Config{URL: url, Keys: storetest.Ring,
		Logger: storetest.Discard()}))(b))
	storetest.NoError(b, s.StartTree(b.Context(), 0, 1))
	n := benchLeaves()
	tree, from := &audit.Tree{}, audit.TreeHead{Root: audit.EmptyRoot}
	for i := range n {
		tree.Append(sha256.Sum256(binary.BigEndian.AppendUint64(nil, uint64(i))))
		if tree.Full() == 256 || i == n-1 {
			to := tree.Head(0)
			if ok, err := s.GrowTree(b.Context(), from, to, tree.Take()); !ok || err != nil {
				b.Fatal(ok, err)
			}
			from = to
		}
	}
	seq := int64(0)
	for b.Loop() {
		seq = seq*6364136223846793005 + 1442695040888963407
		proof := storetest.Must(audit.ProveInclusion(from, int64(uint64(seq)%uint64(n)), reading(b.Context(), s, 0)))(b)
		if len(proof) == 0 {
			b.Fatal("no proof")
		}
	}
	b.ReportMetric(float64(n), "leaves")
}

// BenchmarkVerify measures how many records are verified in a second, with their tree.
func BenchmarkVerify(b *testing.B) {
	const records = 512 * 100
	url := postgrestest.Database(b)
	s := storetest.Close(b, storetest.Must(store.Open(b.Context(), store.Config{URL: url, Keys: storetest.Ring,
		Logger: storetest.Discard()}))(b))
	record(b, s, records)
	k := &Keeper{Store: s, Signer: NewSigner(storetest.Ring.SignSeed), Logger: storetest.Discard()}
	storetest.NoError(b, k.SignHeads(b.Context()))
	for b.Loop() {
		reports, broken, err := Verify(b.Context(), s, k.Signer.Public, trust, nil)
		if err != nil || broken != nil || reports[0].Checkpoints != 1 {
			b.Fatal(reports, broken, err)
		}
	}
	b.ReportMetric(records*float64(b.N)/b.Elapsed().Seconds(), "records/s")
}

// record appends checks to chain 0, of 512 callers at once, and returns how long each took.
func record(b *testing.B, s *store.Store, n int) (took []time.Duration) {
	b.Helper()
	ledger := storetest.Must(s.NewLedger(store.LedgerConfig{}))(b)
	defer ledger.Close()
	caller := storetest.NewCaller(b, s, storetest.Plan(b, "pro", n+1))
	e := storetest.Parse(b, entity.Domain, "example.org")
	var callers sync.WaitGroup
	took = make([]time.Duration, n/512*512)
	for i := range 512 {
		callers.Go(func() {
			for j := range n / 512 {
				began := time.Now()
				r := storetest.At(storetest.Decided(caller, e, check.Allow), began)
				if err := ledger.Append(b.Context(), r); err != nil {
					b.Error(err)
				}
				took[i*(n/512)+j] = time.Since(began)
			}
		})
	}
	callers.Wait()
	return took
}

// BenchmarkCheckpointLag measures how long records wait to be covered by a checkpoint while 512 callers check.
func BenchmarkCheckpointLag(b *testing.B) {
	s := storetest.Close(b, storetest.Must(store.Open(b.Context(), store.Config{URL: postgrestest.Database(b),
		Keys: storetest.Ring, Logger: storetest.Discard()}))(b))
	var lags []time.Duration
	var mu sync.Mutex
	k := &Keeper{Store: s, Signer: NewSigner(storetest.Ring.SignSeed), Logger: storetest.Discard(),
		Dir: CheckpointDir(b.TempDir()), Covered: func(lag time.Duration) {
			mu.Lock()
			defer mu.Unlock()
			lags = append(lags, lag)
		}}
	storetest.Background(b, k.Run)
	for b.Loop() {
		record(b, s, 512*100)
	}
	mu.Lock()
	defer mu.Unlock()
	if len(lags) == 0 {
		b.Skip("too short: no checkpoint was signed")
	}
	slices.Sort(lags)
	b.ReportMetric(float64(len(lags)), "checkpoints")
	b.ReportMetric(lags[len(lags)/2].Seconds(), "p50-s")
	b.ReportMetric(lags[len(lags)-1].Seconds(), "longest-s")
}

// BenchmarkAppend measures how long the ledger takes to record checks of 512 callers, without and with a host that
// extends the tree and signs it.
func BenchmarkAppend(b *testing.B) {
	for _, tree := range []bool{false, true} {
		b.Run(fmt.Sprintf("tree=%v", tree), func(b *testing.B) {
			s := storetest.Close(b, storetest.Must(store.Open(b.Context(), store.Config{URL: postgrestest.Database(b),
				Keys: storetest.Ring, Logger: storetest.Discard()}))(b))
			if tree {
				k := &Keeper{Store: s, Signer: NewSigner(storetest.Ring.SignSeed), Logger: storetest.Discard(),
					Dir: CheckpointDir(b.TempDir())}
				storetest.Background(b, k.Run)
			}
			var took []time.Duration
			for b.Loop() {
				took = append(took, record(b, s, 512*100)...)
			}
			slices.Sort(took)
			b.ReportMetric(float64(took[len(took)/2].Microseconds())/1000, "p50-ms")
			b.ReportMetric(float64(took[len(took)*99/100].Microseconds())/1000, "p99-ms")
		})
	}
}
