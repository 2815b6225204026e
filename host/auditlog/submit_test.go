package auditlog

import (
	"bytes"
	"context"
	"net"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"assay/host/audit"
	"assay/host/audit/witness"
	"assay/host/check"
	"assay/host/entity"
	"assay/host/store"
	"assay/host/store/storetest"
	"assay/registry/expect"
)

// observer is a witness on a socket.
type observer struct {
	witness.Address
	dir    string
	key    *witness.Key
	server atomic.Pointer[witness.Server] // nil: it is stopped
}

// observe starts a witness that trusts the chains of a keeper.
func observe(t *testing.T, k *Keeper, name string) *observer {
	t.Helper()
	o := &observer{dir: t.TempDir()}
	o.key = expect.Value(witness.NewKey(name, bytes.Repeat([]byte(name[:1]), 32), time.Now))(t)
	o.Key = expect.Value(witness.ParseVerifier(o.key.VerifierKey()))(t)
	o.start(t, k)
	listening := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		server := o.server.Load()
		if server == nil {
			panic(http.ErrAbortHandler)
		}
		server.ServeHTTP(w, r)
	}))
	o.URL = listening.URL
	t.Cleanup(func() {
		listening.Close()
		o.stop()
	})
	return o
}

func (o *observer) start(t *testing.T, k *Keeper) {
	t.Helper()
	o.server.Store(expect.Value(witness.NewServer(o.dir, o.key, []string{k.Signer.TreeKey(0),
		k.Signer.TreeKey(audit.StateChain), k.Signer.TreeKey(audit.StatesOf(0))}))(t))
}

// stop keeps the port, which another program could take.
func (o *observer) stop() {
	if server := o.server.Swap(nil); server != nil {
		_ = server.Close()
	}
}

// submitterOf returns a submitter of a new host.
func submitterOf(t *testing.T, k *Keeper, to ...*observer) *Submitter {
	t.Helper()
	var addresses []witness.Address
	for _, o := range to {
		addresses = append(addresses, o.Address)
	}
	s := NewSubmitter(k.Store, k.Signer, addresses, k.Logger)
	t.Cleanup(s.http.CloseIdleConnections)
	return s
}

// turn lets all witnesses be asked, also after a failure.
func (s *Submitter) turn(ctx context.Context) {
	for _, o := range s.outlets {
		for chain, sub := range o.chains {
			sub.next = time.Time{}
			o.chains[chain] = sub
		}
		o.turn(ctx)
	}
}

// signMore appends records and signs a checkpoint.
func signMore(t *testing.T, k *Keeper, records func()) {
	t.Helper()
	records()
	expect.NoError(t, k.SignHeads(t.Context()))
}

// wantWitnesses checks who cosigned the newest checkpoint that hosts serve, and that its text is the host's.
func wantWitnesses(t *testing.T, k *Keeper, want string, all ...*observer) {
	t.Helper()
	served, _, err := Files{k.Store}.AuditFile(t.Context(), 0, "checkpoint")
	expect.NoError(t, err)
	alone := expect.Value(k.Signer.SignTree(expect.Value(k.Signer.OpenTree(string(served)))(t)))(t)
	lines, ok := strings.CutPrefix(string(served), alone)
	var names []string
	for _, o := range all {
		if o.Key.Signed(string(served)) {
			names = append(names, o.Key.Name())
		}
	}
	if got := strings.Join(names, " "); got != want || !ok || strings.Count(lines, "\n") != len(names) {
		t.Errorf("cosigned by %q, want %q:\n%s", got, want, served)
	}
}

var sinceWhen = regexp.MustCompile(`^witness two\.example has not cosigned checkpoints of audit chain 0 ` +
	`for [0-9hms]+: asking witness two\.example: `)

// One witness stops, and starts again; another host submits too.
func TestSubmission(t *testing.T) {
	t.Parallel()
	k, db := oldLog(t)
	one, two := observe(t, k, "one.example"), observe(t, k, "two.example")
	s := submitterOf(t, k, one, two)
	s.turn(t.Context()) // there is no checkpoint yet
	signMore(t, k, func() {})
	wantWitnesses(t, k, "", one, two)
	s.turn(t.Context())
	wantWitnesses(t, k, "one.example two.example", one, two)
	first := expect.Value(k.Store.NewestCosigned(t.Context(), 0, 1))(t)

	two.stop()
	signMore(t, k, func() { fill(t, db, 300) })
	s.turn(t.Context())
	wantWitnesses(t, k, "one.example", one, two)
	delayed := s.Delayed()
	expect.That(t, len(delayed) == 1 && sinceWhen.MatchString(delayed[0]) && s.Waiting("two.example") > 0 &&
		s.Waiting("one.example") == 0, "delayed %q", delayed)
	s.outlets[1].turn(t.Context()) // too early for another attempt
	expect.Equal(t, "the pause", s.outlets[1].chains[0].pause, submitInterval)

	two.start(t, k)
	signMore(t, k, func() { fill(t, db, 1) }) // it has not seen the checkpoint before
	s.turn(t.Context())
	wantWitnesses(t, k, "one.example two.example", one, two)
	expect.That(t, s.Delayed() == nil && s.Contradicted() == nil && s.Waiting("two.example") == 0,
		"delayed %q, contradicted %q", s.Delayed(), s.Contradicted())

	// A host that starts asks once more, but adds no second signature. It is no evidence that a witness is ahead.
	other := submitterOf(t, k, one, two)
	other.turn(t.Context())
	wantWitnesses(t, k, "one.example two.example", one, two)
	expect.NoError(t, other.outlets[0].judge(t.Context(), 0, &witness.AheadError{Size: newestTree(t, k).Size}))
	signMore(t, k, func() { fill(t, db, 7) })
	s.turn(t.Context())
	one.stop() // the signature of the first host is enough
	other.turn(t.Context())
	expect.That(t, other.Delayed() == nil, "a host submits what another one did: %q", other.Delayed())
	expect.Equal(t, "records of the first cosigned checkpoint", expect.Value(k.Signer.OpenTree(first))(t).Size, 4)
}

// A database that went back is found with the next request, by hosts that ran before and by one that starts.
func TestWitnessKnowsMore(t *testing.T) {
	t.Parallel()
	k, db := oldLog(t)
	one := observe(t, k, "one.example")
	s := submitterOf(t, k, one)
	signMore(t, k, func() {})
	s.turn(t.Context())
	restore := dump(t, db, "kept", "audit_trees", "audit_tiles", "audit_checkpoints")
	signMore(t, k, func() { fill(t, db, 300) })
	s.turn(t.Context())
	expect.Must(t, s.Contradicted() == nil, "contradicted %q", s.Contradicted())
	storetest.Exec(t, db, "DELETE FROM audit_records WHERE seq > 4 AND chain = 0",
		"UPDATE audit_heads SET seq = 4 WHERE chain = 0")
	restore()
	started := submitterOf(t, k, one)
	for _, host := range []*Submitter{s, started} {
		host.turn(t.Context())
		expect.NoDiff(t, "contradicted", []string{"witness one.example cosigned 304 records of audit chain 0, but " +
			"the newest checkpoint in the database has 4: " + ErrWentBack.Error()}, host.Contradicted())
		expect.Equal(t, "delayed", len(host.Delayed()), 0)
	}
	// The chain goes on with other records.
	fill(t, db, 400)
	storetest.Exec(t, db, "UPDATE audit_records SET leaf = sha256(leaf) WHERE seq > 4 AND chain = 0")
	expect.NoError(t, another(t, k).SignHeads(t.Context()))
	for _, host := range []*Submitter{s, started} {
		host.turn(t.Context())
		got := host.Contradicted()
		expect.That(t, len(got) == 1 && strings.Contains(got[0], "is not the beginning of the one"), "%q", got)
	}
	wantWitnesses(t, k, "", one)
	// A proof without its tiles.
	storetest.Exec(t, db, "UPDATE audit_tiles SET hashes = substr(hashes, 1, 32) WHERE chain = 0")
	started = submitterOf(t, k, one)
	started.turn(t.Context())
	got := started.Contradicted()
	expect.That(t, len(got) == 1 && strings.Contains(got[0], "are missing or altered"), "contradicted %q", got)
}

// A witness that does not answer does not delay others.
func TestRunSubmits(t *testing.T) {
	t.Parallel()
	k, _ := oldLog(t)
	silent := expect.Value(net.Listen("tcp", "127.0.0.1:0"))(t)
	t.Cleanup(func() { _ = silent.Close() })
	one := observe(t, k, "one.example")
	two := &observer{Address: observe(t, k, "two.example").Address}
	two.URL = "http://" + silent.Addr().String()
	s := submitterOf(t, k, two, one)
	expect.NoError(t, k.SignHeads(t.Context()))
	storetest.Background(t, s.Run)
	expect.Until(t, "the signature", func() bool {
		return one.Key.Signed(expect.Value(k.Store.NewestCheckpoint(t.Context(), 0))(t))
	})
}

// Verification with a witness's key requires that it cosigned all records but the newest, in a database and an export.
func TestRequireCosigned(t *testing.T) {
	t.Parallel()
	k, _ := oldLog(t)
	one, two := observe(t, k, "one.example"), observe(t, k, "two.example")
	s := submitterOf(t, k, one)
	signMore(t, k, func() {})
	s.turn(t.Context())
	at := k.Store.Now()
	caller := storetest.NewCaller(t, k.Store, storetest.Plan(t, "pro", 10))
	e := storetest.Parse(t, entity.Domain, "example.net")
	k.record(t, storetest.At(storetest.Decided(caller, e, check.Allow), at))
	expect.NoError(t, k.SignHeads(t.Context()))
	text := writeExport(t, k)
	export := expect.Value(OpenExport(bytes.NewReader(text), int64(len(text))))(t)
	for name, c := range map[string]struct {
		witnesses []witness.Verifier
		after     time.Duration // since the record that is not cosigned
		want      string
	}{
		"nobody is asked":    {nil, time.Hour, ""},
		"a recent record":    {[]witness.Verifier{one.Key}, 59 * time.Second, ""},
		"an old record":      {[]witness.Verifier{one.Key}, 61 * time.Second, "record 5: witness one.example"},
		"an unknown witness": {[]witness.Verifier{one.Key, two.Key}, 0, "record 1: witness two.example"},
	} {
		verify := func(log Log) error {
			reports, broken, err := VerifyPublic(t.Context(), log, k.Signer.Public, nil, at)
			expect.NoError(t, err)
			expect.NoError(t, broken)
			broken, err = RequireCosigned(t.Context(), log, k.Signer.Public, c.witnesses, reports, at.Add(c.after))
			expect.NoError(t, err)
			expect.Outcome(t, name, broken, c.want)
			expect.That(t, reports[0].OK == (broken == nil) && (broken == nil || reports[0].Error == broken.Error()),
				"%s: the report is %+v", name, reports[0])
			return nil
		}
		expect.NoError(t, verify(export))
		expect.NoError(t, k.Store.ReadAuditLog(t.Context(), func(_ context.Context, log store.AuditLog) error {
			return verify(log)
		}))
	}
}
