package receipt

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"math/bits"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"
	"time"

	"assay/host/audit"
	"assay/registry/expect"
)

var (
	signer = audit.NewSigner(audit.KeyName, bytes.Repeat([]byte{1}, 32))
	other  = audit.NewSigner(audit.KeyName, bytes.Repeat([]byte{2}, 32))
	nonce  = bytes.Repeat([]byte{3}, audit.NonceBytes)
	at     = time.Date(2026, 1, 15, 10, 30, 0, 0, time.UTC)
)

// record is as long as the records of checks are.
var record = audit.Record{Kind: audit.Check, At: "2026-01-15T10:30:00.123Z", Ref: "chk_01KF0HBGZ0Q8WJ3V5N7T9R2M4C",
	Account: "acct_01KF0HBGZ0Q8WJ3V5N7T9R2M4C", Key: "key_01KF0HBGZ0Q8WJ3V5N7T9R2M4C", Type: "domain",
	Pseudonym: bytes.Repeat([]byte{4}, 32), Score: 100, Verdict: "review", Revision: 1234, Digest: nil}

// log holds nothing but this record.
var log = uniform{leaf: audit.Leaf(nonce, record)}

// uniform is a log of 2^height leaves that are all the same, so that its tiles need no memory.
type uniform struct{ leaf audit.Hash }

// subtree returns the root of 2^height leaves.
func (u uniform) subtree(height int) audit.Hash {
	tree := &audit.Tree{}
	tree.Append(u.leaf)
	root := tree.Root()
	for range height {
		parent := &audit.Tree{}
		parent.Append(root) // a leaf of the tree is hashed no more, so two of them have the root of two subtrees
		parent.Append(root)
		root = parent.Root()
	}
	return root
}

func (u uniform) head(size int64) audit.TreeHead {
	return audit.TreeHead{Chain: 3, Size: size, Root: u.subtree(bits.TrailingZeros64(uint64(size)))}
}

func (u uniform) read(ids []audit.TileID) (tiles [][]byte, err error) {
	for _, id := range ids {
		h := u.subtree(8 * id.Level)
		tiles = append(tiles, bytes.Repeat(h[:], id.Width))
	}
	return tiles, nil
}

// issue returns a receipt of the leaf with an index in a log of size leaves.
func issue(t *testing.T, by *audit.Signer, index, size int64) *Receipt {
	t.Helper()
	promise := expect.Value(by.SignPromise(audit.Promise{Chain: 3, Index: index, Leaf: log.leaf, Until: at}))(t)
	r := &Receipt{Format: Format, Record: NewRecord(nonce, record), Activation: bytes.Repeat([]byte{0xab}, 32),
		Promise: promise}
	if size == 0 {
		return r
	}
	head := log.head(size)
	checkpoint := expect.Value(by.SignTree(head))(t)
	hashes := expect.Value(audit.ProveInclusion(head, index, log.read))(t)
	r.Proof = &Proof{Index: index, Checkpoint: checkpoint}
	for _, h := range hashes {
		r.Proof.Hashes = append(r.Proof.Hashes, h[:]...)
	}
	return r
}

// again returns a receipt as its JSON says.
func again(t *testing.T, r *Receipt) (*Receipt, []byte) {
	t.Helper()
	text := expect.Value(json.Marshal(r))(t)
	return expect.Value(Parse(text))(t), text
}

// A receipt of a log with a billion records has less than 2.5 KB, with a checkpoint that a witness has cosigned.
func TestReceiptOfABillionRecords(t *testing.T) {
	t.Parallel()
	const size, index = 1 << 30, 987654321
	issued := issue(t, signer, index, size)
	cosignature := bytes.Repeat([]byte{7}, 4+8+64) // hash of the key, time and signature
	issued.Proof.Checkpoint += "\u2014 witness.example.org " + base64.StdEncoding.EncodeToString(cosignature) + "\n"
	r, text := again(t, issued)
	result, err := r.Verify(signer.Public)
	expect.That(t, err == nil && result.Size == size && result.Index == index && result.Chain == 3, "%+v, %v", result,
		err)
	t.Logf("%d bytes", len(text))
	expect.That(t, len(text) <= 2500, "the receipt has %d bytes: %s", len(text), text)
}

func TestPromisedOnly(t *testing.T) {
	t.Parallel()
	r, _ := again(t, issue(t, signer, 5, 0))
	result, err := r.Verify(signer.Public)
	expect.That(t, err == nil && result.Size == 0 && result.Until.Equal(at), "%+v, %v", result, err)
	for name, test := range map[string]struct {
		size   int64
		leaf   audit.Hash
		now    time.Time
		broken bool
	}{
		"in the log":        {8, log.leaf, at, false},
		"not yet":           {4, log.leaf, at, false},
		"too late":          {4, log.leaf, at.Add(time.Second), true},
		"another record":    {8, audit.Hash{1}, at, true},
		"another, too late": {8, audit.Hash{1}, at.Add(time.Hour), true},
	} {
		published := uniform{leaf: test.leaf}
		checkpoint := expect.Value(signer.SignTree(published.head(test.size)))(t)
		result, err := r.Compare(signer.Public, checkpoint, published.read, test.now)
		expect.That(t, errors.Is(err, ErrBroken) == test.broken && (test.broken || err == nil &&
			(result.Size > 0) == (test.size > 5)), "%s: %+v, %v", name, result, err)
	}
	proved := issue(t, signer, 5, 8)
	checkpoint := expect.Value(signer.SignTree(log.head(4)))(t)
	expect.Error(t, "a log that is shorter than a signed tree",
		expect.ErrorOf(proved.Compare(signer.Public, checkpoint, log.read, at)), ErrBroken)
}

// Every change of a receipt is found.
func TestAlteredReceipts(t *testing.T) {
	t.Parallel()
	fresh := func() *Receipt { return issue(t, signer, 5, 8) }
	for name, alter := range map[string]func(*Receipt){
		"nonce":                 func(r *Receipt) { r.Record.Nonce[0]++ },
		"long nonce":            func(r *Receipt) { r.Record.Nonce = append(r.Record.Nonce, 0) },
		"time":                  func(r *Receipt) { r.Record.At = strings.Replace(r.Record.At, "10", "11", 1) },
		"account":               func(r *Receipt) { r.Record.Account += "x" },
		"score":                 func(r *Receipt) { r.Record.Score-- },
		"verdict":               func(r *Receipt) { r.Record.Verdict = "allow" },
		"revision":              func(r *Receipt) { r.Record.Revision++ },
		"promise":               func(r *Receipt) { r.Promise = strings.Replace(r.Promise, "\n5\n", "\n4\n", 1) },
		"of another":            func(r *Receipt) { r.Promise = issue(t, other, 5, 0).Promise },
		"checkpoint as promise": func(r *Receipt) { r.Promise = r.Proof.Checkpoint },
		"index":                 func(r *Receipt) { r.Proof.Index++ },
		"hashes":                func(r *Receipt) { r.Proof.Hashes[7]++ },
		"a hash less":           func(r *Receipt) { r.Proof.Hashes = r.Proof.Hashes[32:] },
		"half a hash":           func(r *Receipt) { r.Proof.Hashes = r.Proof.Hashes[16:] },
		"checkpoint of another": func(r *Receipt) { r.Proof.Checkpoint = issue(t, other, 5, 8).Proof.Checkpoint },
		"checkpoint of a tree":  func(r *Receipt) { r.Proof.Checkpoint = issue(t, signer, 5, 16).Proof.Checkpoint },
	} {
		r := fresh()
		r.Record.Nonce, r.Record.Pseudonym = bytes.Clone(r.Record.Nonce), bytes.Clone(r.Record.Pseudonym)
		alter(r)
		expect.Failure(t, expect.ErrorOf(r.Verify(signer.Public)), "%s: not found", name)
	}
	expect.NoError(t, expect.ErrorOf(fresh().Verify(signer.Public)))
	for _, text := range []string{"", "{}", `{"format":"x"}`,
		`{"format":"` + Format + `","record":{"nonce":"x"},"proof":null}`,
		`{"format":"` + Format + `","record":{"score":99,"Score":7},"proof":null}`,
		`{"format":"","format":"` + Format + `","proof":null}`} {
		expect.Failure(t, expect.ErrorOf(Parse([]byte(text))), "%q was read", text)
	}
}

// This verifier and the one in Python refuse the same, and the one in Python says which file is wrong.
func TestVerifiersAgree(t *testing.T) {
	t.Parallel()
	python, dir := expect.Program(t, "python3", "python3"), t.TempDir()
	_, text := again(t, issue(t, signer, 5, 8))
	expect.NoError(t, os.WriteFile(dir+"/keys", []byte(signer.TreeKey(3)), 0o600))
	args := []string{"../../examples/verify-python/verify.py", "receipt", "--key", dir + "/keys"}
	for _, change := range [][2]string{{`^.*`, strings.Repeat("[", 200_000)},
		{`"format"`, `"verdict":"allow","format"`}, {`"kind"`, `"note":"x","kind"`}, {`"index"`, `"size":8,"index"`},
		{`"abab`, `"ABab`}, {`"abab`, `"no`}, {`"promise"`, `"keys":{},"promise"`}, {`,"proof".*`, `}`},
		{`\\n"}}`, "\\n\u2014 x y\\n\"}}"}, {`"chk`, "\"\xffchk"}, {`"hashes":"`, `"hashes":"é`},
		{`$`, "\n"}} { // the last one is right
		altered := regexp.MustCompile(change[0]).ReplaceAll(text, []byte(change[1]))
		file := fmt.Sprintf("%s/%d.json", dir, len(args))
		expect.NoError(t, os.WriteFile(file, altered, 0o600))
		r, err := Parse(altered)
		if err == nil {
			_, err = r.Verify(signer.Public)
		}
		expect.Equal(t, change[0]+" is valid", err == nil, change[0] == "$")
		args = append(args, file)
	}
	out, _ := exec.CommandContext(t.Context(), python, args...).CombinedOutput()
	for i, line := range strings.SplitAfter(string(out), "\n")[:len(args)-4] {
		expect.Equal(t, line+": it names the file", strings.HasPrefix(line, args[i+4]+": "), i < len(args)-5)
	}
}

// A receipt of a log whose key was replaced is verified with the first key.
func TestReceiptAfterRotation(t *testing.T) {
	t.Parallel()
	rotated := audit.NewSigner(audit.KeyName, bytes.Repeat([]byte{1}, 32))
	next := rotated.Hold(bytes.Repeat([]byte{7}, 32))
	statement := expect.Value(rotated.Introduce(next, audit.Checkpoints|audit.Records, at.Add(-2*time.Hour)))(t)
	r := issue(t, rotated, 5, 8)
	expect.Failure(t, expect.ErrorOf(r.Verify(signer.Public)), "valid without the statement")
	r.Keys = []string{statement}
	r, _ = again(t, r)
	expect.NoError(t, expect.ErrorOf(r.Verify(signer.Public)))
	thief := issue(t, signer, 5, 8) // the old key signs a check that came later
	thief.Keys = r.Keys
	expect.ErrorText(t, "an old key's promise", expect.ErrorOf(thief.Verify(signer.Public)), "key of the promise")
	thief.Promise = r.Promise
	expect.ErrorText(t, "an old key's checkpoint", expect.ErrorOf(thief.Verify(signer.Public)), "key of the checkpoint")
}
