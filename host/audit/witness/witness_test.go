package witness_test

import (
	"bytes"
	"crypto/ed25519"
	"encoding/binary"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/mod/sumdb/note"
	"golang.org/x/mod/sumdb/tlog"

	"assay/host/audit"
	"assay/host/audit/witness"
	"assay/registry/expect"
)

var (
	signer = audit.NewSigner("assay/audit", bytes.Repeat([]byte{1}, 32))
	at     = time.Unix(1679315147, 0)
)

// history is a log's leaves as a tree.
type history struct{ hashes []tlog.Hash }

// grow returns a tree of n leaves, of which those from the number fork on differ from other trees.
func grow(tb testing.TB, n, fork int64) *history {
	tb.Helper()
	h := &history{}
	for i := range n {
		leaf := "leaf " + strconv.FormatInt(i, 10)
		if i >= fork {
			leaf += " of the fork"
		}
		h.hashes = append(h.hashes, expect.Value(tlog.StoredHashes(i, []byte(leaf), h))(tb)...)
	}
	return h
}

// ReadHashes implements tlog.HashReader.
func (h *history) ReadHashes(indexes []int64) ([]tlog.Hash, error) {
	found := make([]tlog.Hash, len(indexes))
	for i, index := range indexes {
		found[i] = h.hashes[index]
	}
	return found, nil
}

// checkpoint returns the signed head of the first size leaves.
func (h *history) checkpoint(tb testing.TB, size int64, by *audit.Signer) string {
	tb.Helper()
	root := expect.Value(tlog.TreeHash(size, h))(tb)
	return expect.Value(by.SignTree(audit.TreeHead{Size: size, Root: audit.Hash(root)}))(tb)
}

// prove returns the function that proves that older trees are the beginning of the one of size leaves.
func (h *history) prove(size int64) func(int64) ([]audit.Hash, error) {
	return func(old int64) (hashes []audit.Hash, err error) {
		if old == 0 {
			return nil, nil
		}
		proof, err := tlog.ProveTree(size, old, h)
		for _, hash := range proof {
			hashes = append(hashes, audit.Hash(hash))
		}
		return hashes, err
	}
}

// running is a witness that listens on a socket.
type running struct {
	url    string
	key    witness.Verifier
	server *witness.Server
	http   *httptest.Server
}

func start(tb testing.TB, dir, name string, seed byte) *running {
	tb.Helper()
	key := expect.Value(witness.NewKey(name, bytes.Repeat([]byte{seed}, 32), func() time.Time { return at }))(tb)
	server := expect.Value(witness.NewServer(dir, key, []string{signer.TreeKey(0), signer.TreeKey(0)}))(tb)
	verifier := expect.Value(witness.ParseVerifier(key.VerifierKey()))(tb)
	listening := httptest.NewServer(server)
	r := &running{listening.URL, verifier, server, listening}
	tb.Cleanup(r.stop)
	return r
}

func (r *running) stop() {
	r.http.Close()
	_ = r.server.Close()
}

func (r *running) client() *witness.Client {
	return witness.NewClient(r.url+"/", r.key, r.http.Client())
}

// post submits a request and returns the response's status, type and body.
func (r *running) post(tb testing.TB, body string) (status int, kind, answer string) {
	tb.Helper()
	response, err := r.http.Client().Post(r.url+"/add-checkpoint", "", strings.NewReader(body))
	expect.NoError(tb, err)
	defer func() { _ = response.Body.Close() }()
	var b bytes.Buffer
	expect.NoError(tb, expect.ErrorOf(b.ReadFrom(response.Body)))
	return response.StatusCode, response.Header.Get("Content-Type"), b.String()
}

// body returns a request of which the proof is that of tree.
func body(tb testing.TB, tree *history, old, proved, size int64, checkpoint string) string {
	tb.Helper()
	return witness.Request{Old: old, Proof: expect.Value(tree.prove(size)(proved))(tb), Checkpoint: checkpoint}.String()
}

func TestStatuses(t *testing.T) {
	t.Parallel()
	tree, fork := grow(t, 20, 20), grow(t, 20, 3)
	other := audit.NewSigner("assay/audit", bytes.Repeat([]byte{9}, 32))
	at12 := tree.checkpoint(t, 12, signer)
	_, signature, _ := strings.Cut(at12, "\n\n")
	text, _, _ := strings.Cut(tree.checkpoint(t, 13, signer), "\n\n")
	type testCase struct {
		body   string
		status int
		answer string // of status 409
	}
	expect.Each(t, map[string]testCase{
		"larger":                {body(t, tree, 7, 7, 12, at12), 200, ""},
		"the same again":        {body(t, tree, 7, 7, 7, tree.checkpoint(t, 7, signer)), 200, ""},
		"no request":            {"", 400, ""},
		"no checkpoint":         {"old 7\n\n", 400, ""},
		"leading zero":          {strings.Replace(body(t, tree, 7, 7, 12, at12), "old 7", "old 07", 1), 400, ""},
		"old above the new":     {body(t, tree, 13, 12, 12, at12), 400, ""},
		"too many hashes":       {"old 7\n" + strings.Repeat(strings.Repeat("A", 43)+"=\n", 64) + "\n" + at12, 400, ""},
		"too long":              {body(t, tree, 7, 7, 12, at12) + strings.Repeat("x", 1<<17), 400, ""},
		"unknown log":           {body(t, tree, 7, 7, 12, tree.checkpoint(t, 12, other)), 404, ""},
		"signature of another":  {body(t, tree, 7, 7, 12, text+"\n\n"+signature), 403, ""},
		"key that is not known": {body(t, tree, 7, 7, 12, signedByStranger(t, at12)), 403, ""},
		"never cosigned":        {body(t, tree, 0, 0, 12, at12), 409, "7\n"},
		"another old size":      {body(t, tree, 8, 8, 12, at12), 409, "7\n"},
		"smaller":               {body(t, tree, 5, 5, 5, tree.checkpoint(t, 5, signer)), 409, "7\n"},
		"fork of the same size": {body(t, fork, 7, 7, 7, fork.checkpoint(t, 7, signer)), 409, "7\n"},
		"fork":                  {body(t, fork, 7, 7, 12, fork.checkpoint(t, 12, signer)), 422, ""},
		"proof of another size": {body(t, tree, 7, 6, 12, at12), 422, ""},
		"proof of nothing":      {body(t, tree, 7, 7, 12, tree.checkpoint(t, 7, signer)), 422, ""},
	}, func(t *testing.T, c testCase) {
		w := start(t, t.TempDir(), "witness.example/w1", 2)
		expect.NoError(t, expect.ErrorOf(w.client().Cosign(t.Context(), tree.checkpoint(t, 7, signer), tree.prove(7))))
		status, kind, answer := w.post(t, c.body)
		expect.Must(t, status == c.status, "status %d, want %d: %s", status, c.status, answer)
		expect.That(t, status != http.StatusConflict || kind == "text/x.tlog.size" && answer == c.answer,
			"409 with %q of type %s", answer, kind)
		if status != http.StatusOK { // what was refused changed nothing
			verified(t, at12+expect.Value(w.client().Cosign(t.Context(), at12, tree.prove(12)))(t), w.key)
		}
	})
}

// signedByStranger signs a checkpoint's text with another key of the same name.
func signedByStranger(tb testing.TB, checkpoint string) string {
	tb.Helper()
	text, _, _ := strings.Cut(checkpoint, "\n\n")
	return string(expect.Value(note.Sign(&note.Note{Text: text + "\n"}, stranger(signer.Origin(0))))(tb))
}

// stranger is the name of a log with a key that nobody trusts.
type stranger string

func (s stranger) Name() string              { return string(s) }
func (stranger) KeyHash() uint32             { return 42 }
func (stranger) Sign([]byte) ([]byte, error) { return []byte("signature"), nil }

func verified(tb testing.TB, cosigned string, by ...note.Verifier) {
	tb.Helper()
	n := expect.Value(note.Open([]byte(cosigned), note.VerifierList(by...)))(tb)
	expect.That(tb, len(n.Sigs) == len(by), "%d of %d witnesses signed", len(n.Sigs), len(by))
	expect.Error(tb, "the cosigned checkpoint does not open", expect.ErrorOf(signer.OpenTree(cosigned)), nil)
}

// TestTwoWitnesses grows a log before two witnesses, one of which restarts, and then forks it.
func TestTwoWitnesses(t *testing.T) {
	t.Parallel()
	tree, fork, dir := grow(t, 300, 300), grow(t, 400, 250), t.TempDir()
	one, two := start(t, t.TempDir(), "one.example", 2), start(t, dir, "two.example", 3)
	cosign := func(tree *history, size int64, w *running) (string, error) {
		return w.client().Cosign(t.Context(), tree.checkpoint(t, size, signer), tree.prove(size))
	}
	for _, size := range []int64{0, 1, 255, 256, 300} {
		first := expect.Value(cosign(tree, size, one))(t)
		verified(t, tree.checkpoint(t, size, signer)+first+expect.Value(cosign(tree, size, two))(t), one.key, two.key)
		two.stop()
		two = start(t, dir, "two.example", 3)
	}
	for name, size := range map[string]int64{"same size": 300, "larger": 400} {
		expect.Error(t, name+": a fork", expect.ErrorOf(cosign(fork, size, two)), witness.ErrContradicted)
	}
	var ahead *witness.AheadError
	_, err := cosign(fork, 260, two)
	expect.That(t, errors.As(err, &ahead) && ahead.Size == 300 && ahead.Witness == "two.example",
		"a log that went back gives %v", err)
	two.stop()
	_, err = cosign(tree, 300, two)
	expect.That(t, err != nil && !errors.Is(err, witness.ErrContradicted), "a witness that is down gives %v", err)
	expect.NoError(t, expect.ErrorOf(cosign(tree, 300, one)))
}

// TestConcurrentSubmissions submits a checkpoint while the witness signs another: the second must wait, or what the
// witness knows could change between comparison and signature.
func TestConcurrentSubmissions(t *testing.T) {
	t.Parallel()
	entered, release := make(chan struct{}, 2), make(chan struct{})
	key, err := witness.NewKey("one.example", bytes.Repeat([]byte{2}, 32), func() time.Time {
		entered <- struct{}{}
		<-release
		return at
	})
	expect.NoError(t, err)
	server := expect.Value(witness.NewServer(t.TempDir(), key, []string{signer.TreeKey(0)}))(t)
	defer func() { expect.NoError(t, server.Close()) }()
	listening := httptest.NewServer(server)
	defer listening.Close()
	tree := grow(t, 2, 2)
	statuses := make(chan int, 2)
	submit := func(old, size int64) {
		request := body(t, tree, old, old, size, tree.checkpoint(t, size, signer))
		go func() {
			response, err := listening.Client().Post(listening.URL+"/add-checkpoint", "", strings.NewReader(request))
			if err != nil {
				t.Error(err)
				statuses <- 0
				return
			}
			_ = response.Body.Close()
			statuses <- response.StatusCode
		}()
	}
	submit(0, 1)
	<-entered // and the first checkpoint is stored
	submit(1, 2)
	select {
	case <-entered:
		t.Error("two checkpoints are signed at once")
	case <-time.After(200 * time.Millisecond):
	}
	close(release)
	first, second := <-statuses, <-statuses
	expect.That(t, first == http.StatusOK && second == http.StatusOK, "statuses %d and %d", first, second)
}

func TestStateIsKept(t *testing.T) {
	t.Parallel()
	dir, tree := t.TempDir(), grow(t, 9, 9)
	w := start(t, dir, "one.example", 2)
	expect.NoError(t, expect.ErrorOf(w.client().Cosign(t.Context(), tree.checkpoint(t, 9, signer), tree.prove(9))))
	key := expect.Value(witness.NewKey("one.example", bytes.Repeat([]byte{2}, 32), time.Now))(t)
	expect.Error(t, "a second witness in the directory", expect.ErrorOf(witness.NewServer(dir, key, nil)),
		witness.ErrLocked)
	files := expect.Value(filepath.Glob(filepath.Join(dir, "[0-9a-f]*")))(t)
	other := audit.NewSigner("assay/audit", bytes.Repeat([]byte{9}, 32))
	for name, content := range map[string]string{
		"damaged": "damaged", "cut": "origin\n1\n", "of another log": tree.checkpoint(t, 9, other),
	} {
		for _, file := range files {
			expect.NoError(t, os.WriteFile(file, []byte(content), 0o600))
		}
		for _, old := range []int64{0, 9} {
			status, _, _ := w.post(t, body(t, tree, old, old, 9, tree.checkpoint(t, 9, signer)))
			expect.Equal(t, "with a state that is "+name+", the status", status, http.StatusInternalServerError)
		}
	}
}

// TestResponses lets clients meet witnesses that misbehave.
func TestResponses(t *testing.T) {
	t.Parallel()
	tree := grow(t, 5, 5)
	checkpoint := tree.checkpoint(t, 5, signer)
	honest := start(t, t.TempDir(), "one.example", 2)
	lines := expect.Value(honest.client().Cosign(t.Context(), checkpoint, tree.prove(5)))(t)
	for name, c := range map[string]struct {
		status int
		body   string
		ok     bool
	}{
		"signature":            {200, lines, true},
		"and that of another":  {200, "\u2014 other.example " + strings.Fields(lines)[2] + "\n" + lines, true},
		"no signature":         {200, "", false},
		"not a signature":      {200, "OK\n", false},
		"size that is no size": {409, "five\n", false},
		"changing sizes":       {409, "4\n", false},
		"failure":              {500, lines, false},
	} {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(c.status)
			_, _ = w.Write([]byte(c.body))
		}))
		client := witness.NewClient(server.URL, honest.key, server.Client())
		got, err := client.Cosign(t.Context(), checkpoint, tree.prove(5))
		server.Close()
		expect.That(t, (!c.ok || err == nil && got == lines) && (c.ok || err != nil), "%s: %q, %v", name, got, err)
	}
	failed := errors.New("tiles are missing")
	expect.Error(t, "a proof that cannot be made", expect.ErrorOf(honest.client().Cosign(t.Context(), checkpoint,
		func(int64) ([]audit.Hash, error) { return nil, failed })), failed)
}

func TestKeys(t *testing.T) {
	t.Parallel()
	key := expect.Value(witness.NewKey("one.example", bytes.Repeat([]byte{2}, 32), func() time.Time { return at }))(t)
	line := key.VerifierKey()
	for name, bad := range map[string]string{
		"empty": "", "no name": line[len("one.example"):], "another name": "two" + line[3:], "cut": line[:len(line)-4],
		"key of a log": signer.TreeKey(0),
	} {
		expect.Failure(t, expect.ErrorOf(witness.ParseVerifier(bad)), "%s: %q is accepted", name, bad)
	}
	for _, name := range []string{"", "a b", "a+b", "a\nb"} {
		expect.Failure(t, expect.ErrorOf(witness.NewKey(name, bytes.Repeat([]byte{2}, 32), time.Now)),
			"the name %q is accepted", name)
	}
	signature := expect.Value(key.Sign([]byte("text\n")))(t)
	verifier := expect.Value(witness.ParseVerifier(line))(t)
	expect.That(t, verifier.Verify([]byte("text\n"), signature), "a signature does not verify")
	for i := range signature { // each byte of time and signature counts
		altered := bytes.Clone(signature)
		altered[i] ^= 1
		expect.That(t, !verifier.Verify([]byte("text\n"), altered), "byte %d is not covered", i)
	}
}

// TestTimeOfCosignature signs at times before 1970 and after 2^63 s, which are not allowed.
func TestTimeOfCosignature(t *testing.T) {
	t.Parallel()
	seed := bytes.Repeat([]byte{2}, 32)
	var now int64
	key := expect.Value(witness.NewKey("one.example", seed, func() time.Time { return time.Unix(now, 0) }))(t)
	expect.NoError(t, expect.ErrorOf(key.Sign([]byte("text\n"))))
	now = -1
	expect.Failure(t, expect.ErrorOf(key.Sign([]byte("text\n"))), "signed before 1970")
	verifier := expect.Value(witness.ParseVerifier(key.VerifierKey()))(t)
	for late, want := range map[uint64]bool{1<<63 - 1: true, 1 << 63: false} {
		message := fmt.Appendf(nil, "cosignature/v1\ntime %d\ntext\n", late)
		signature := ed25519.Sign(ed25519.NewKeyFromSeed(seed), message)
		signature = append(binary.BigEndian.AppendUint64(nil, late), signature...)
		expect.Equal(t, "a signature of time", verifier.Verify([]byte("text\n"), signature), want)
	}
}

func FuzzParseRequest(f *testing.F) {
	f.Add("old 0\n\ncheckpoint")
	f.Add("old 20852014\nPlRNCrwHpqhGrupue0L7gxbjbMiKA9temvuZZDDpkaw=\n\nexample.com\n1\n")
	f.Add("old -1\n\n\n\n")
	f.Fuzz(func(t *testing.T, body string) {
		r, err := witness.ParseRequest(body)
		expect.That(t, err != nil || r.String() == body, "%q is written as %q", body, r.String())
	})
}
