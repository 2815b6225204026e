// Package audit verifies the audit log of hosts, as auditors do.
package audit

import (
	"crypto/ed25519"
	"encoding/base64"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"assay/host/access/keyring"
	"assay/host/audit"
	"assay/host/cli"
	"assay/host/hosttest"
	"assay/host/installation"
	"assay/host/store/postgres/postgrestest"
	"assay/registry/expect"
)

func TestMain(m *testing.M) { os.Exit(hosttest.Main(m)) }

// TestCheckpointKeyElsewhere lets a command sign checkpoints. Promises keep the key of the secret.
func TestCheckpointKeyElsewhere(t *testing.T) {
	t.Parallel()
	database, dir := postgrestest.Database(t), hosttest.OwnSecrets(t, hosttest.DataDir(t))
	own := hosttest.OpenStore(t, dir, database).Store.Signer()
	file := filepath.Join(t.TempDir(), "key")
	public := strings.TrimSpace(hosttest.Output(t, dir, database, "secret", "key", file))
	command := hosttest.Program(t) + " secret sign " + file
	env := []string{"ASSAY_CHECKPOINT_COMMAND=" + command}
	run := func(args ...string) {
		t.Helper()
		out, err := hosttest.TryOutput(t, dir, database, env, args...)
		expect.Must(t, err == nil, "%v: %v\n%s", args, err, out)
	}
	run("secret", "delegate", "--in=0s", "--public-key="+public)
	run("secret", "rotate", "--in=0s")

	cfg := &installation.Config{DataDir: dir, DatabaseURL: database, CheckpointCommand: command}
	signer := hosttest.OpenStore(t, dir, database).Store.Signer()
	expect.Error(t, "without the command", signer.Ready(audit.Checkpoints|audit.Records), audit.ErrKeyElsewhere)
	expect.NoError(t, cfg.HoldCheckpointKey(t.Context(), signer))
	expect.NoError(t, signer.Ready(audit.Checkpoints|audit.Records))
	signed := expect.Value(signer.SignTree(audit.TreeHead{Size: 1}))(t)
	first := audit.NewSigner(audit.KeyName, expect.Value(keyring.Load(filepath.Join(dir, "secret")))(t).SignSeed)
	key := expect.Value(first.With(signer.Statements()))(t)
	tree := expect.Value(key.OpenSigned(signed))(t)
	promise := expect.Value(signer.SignPromise(audit.Promise{Until: time.Unix(1, 0)}))(t)
	opened := expect.Value(key.OpenPromise(promise))(t)
	expect.That(t, tree.Replaced.IsZero() && opened.Replaced.IsZero() && len(signer.Statements()) == 2, "%+v, %+v, %q",
		tree, opened, signer.Statements())
	expect.ErrorText(t, "a promise", expect.ErrorOf(installation.SignByCommand(t.Context(), time.Minute,
		strings.Fields(command), signer.CheckpointKey(), []byte(promise))), "the text is not a checkpoint")
	late := expect.Value(key.OpenSigned(expect.Value(own.SignTree(audit.TreeHead{Size: 1}))(t)))(t)
	expect.That(t, audit.Late(late.Replaced, time.Now().Add(2*audit.Overlap)),
		"the key of the secret still signs checkpoints")
	inFile := hosttest.OpenStore(t, dir, database).Store.Signer()
	expect.NoError(t, (&installation.Config{CheckpointKey: file}).HoldCheckpointKey(t.Context(), inFile))
	expect.Equal(t, "signed with the file", expect.Value(inFile.SignTree(audit.TreeHead{Size: 1}))(t), signed)
	expect.NoError(t, os.Chmod(file, 0o644))
	expect.ErrorText(t, "a file that others can read", (&installation.Config{CheckpointKey: file}).HoldCheckpointKey(
		t.Context(), inFile), "ASSAY_CHECKPOINT_KEY")
	hosttest.WantRefusal(t, "neither a file nor a command", dir, database, nil, []string{"secret", "delegate"},
		"set ASSAY_CHECKPOINT_KEY")
}

// Commands that fail, hang or print something else are errors, and never signatures.
func TestCheckpointCommandsThatFail(t *testing.T) {
	t.Parallel()
	seed, text := make([]byte, ed25519.SeedSize), []byte("assay/x/chain/0\n1\nx\n")
	signature := base64.StdEncoding.EncodeToString(ed25519.Sign(ed25519.NewKeyFromSeed(seed), text))
	script := func(code string) []string { return []string{"sh", "-c", code} }
	for name, test := range map[string]struct {
		command []string
		limit   time.Duration
		reason  string
	}{
		"signs":             {script("cat > /dev/null; echo " + signature), time.Minute, ""},
		"does not read":     {script("echo " + signature), time.Minute, ""},
		"knows its key":     {script("test -n \"$CHECKPOINT_PUBLIC_KEY\" && echo " + signature), time.Minute, ""},
		"fails":             {script("echo no key >&2; exit 3"), time.Minute, "exit status 3: no key"},
		"hangs":             {[]string{"sleep", "60"}, 50 * time.Millisecond, "deadline exceeded"},
		"another signature": {script("echo AAAA"), time.Minute, "did not print the key's signature"},
		"not base 64":       {script("echo '*'"), time.Minute, "did not print the key's signature"},
		"missing":           {[]string{"/nonexistent"}, time.Minute, "no such file"},
	} {
		got, err := installation.SignByCommand(t.Context(), test.limit, test.command, cli.PublicOf(seed), text)
		if test.reason != "" {
			expect.ErrorText(t, name, err, test.reason)
		} else if err != nil || base64.StdEncoding.EncodeToString(got) != signature {
			t.Errorf("%s: %x, %v", name, got, err)
		}
	}
}

// uncovered matches a table in docs/audit-format.md, and its columns that nothing signed binds; none: all.
var uncovered = regexp.MustCompile("`(\\w+)`(?: \\(((?:`\\w+`[ ,\n]*)+)\\))?")
