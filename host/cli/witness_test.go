package cli

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"assay/host/audit"
	"assay/host/audit/witness"
	"assay/host/hosttest"
	"assay/registry/expect"
)

// TestWitness starts the command twice in one directory: its key stays, and it remembers what it cosigned.
func TestWitness(t *testing.T) {
	t.Parallel()
	signer := audit.NewSigner("assay/audit", bytes.Repeat([]byte{1}, 32))
	trust := hosttest.WriteFile(t, "trust", []byte("# the log of a test\n\nverifier key: "+signer.TreeKey(0)+"\n"))
	state := filepath.Join(t.TempDir(), "state")
	tree := expect.Value(audit.OpenTree(0, nil))(t)
	var keys [2]string
	for i := range keys {
		tree.Append(audit.Hash{byte(i)})
		checkpoint := expect.Value(signer.SignTree(tree.Head(0)))(t)
		ctx, stop := context.WithCancel(t.Context())
		reader, writer := io.Pipe()
		var out bytes.Buffer
		code := make(chan int, 1)
		go func() {
			code <- Run(ctx, []string{"witness", "--listen=127.0.0.1:0", "--name=one.example", "--state=" + state,
				"--trust=" + trust}, &out, writer)
			_ = writer.Close()
		}()
		line := make([]byte, 100)
		n, err := reader.Read(line)
		expect.NoError(t, err)
		_, url, ok := strings.Cut(strings.TrimSpace(string(line[:n])), "listening on ")
		expect.Must(t, ok, "it printed %q", line[:n])
		keys[i] = strings.TrimSpace(out.String())
		client := witness.NewClient(url, expect.Value(witness.ParseVerifier(keys[i]))(t), http.DefaultClient)
		var asked []int64
		_, err = client.Cosign(t.Context(), checkpoint, func(old int64) ([]audit.Hash, error) {
			asked = append(asked, old)
			if old == 1 { // the proof is the second leaf
				return []audit.Hash{{1}}, nil
			}
			return nil, nil
		})
		expect.NoError(t, err)
		expect.That(t, asked[len(asked)-1] == int64(i), "start %d: proofs from %v", i, asked)
		stop()
		expect.Equal(t, "exit code", <-code, 0)
	}
	expect.Equal(t, "the keys of two starts", keys[0], keys[1])
	expect.Failure(t, expect.ErrorOf(witness.OpenKey(state, "two.example")), "a key is opened under another name")
	file := filepath.Join(state, "key")
	expect.NoError(t, os.Chmod(file, 0o640))
	_, err := witness.OpenKey(state, "one.example")
	expect.ErrorText(t, "a key that a group can read", err, file+" (mode 640): run chmod 600 "+file)
}
