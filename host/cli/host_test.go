package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"assay/host/access/apikey"
	"assay/host/audit"
	"assay/host/audit/witness"
	"assay/host/auditlog"
	"assay/host/customer/feedback"
	"assay/host/customer/privacy"
	"assay/host/hosttest"
	"assay/host/installation"
	"assay/host/server"
	"assay/host/store/postgres/postgrestest"
	"assay/host/store/storetest"
	"assay/registry/activation"
	"assay/registry/expect"
	"assay/sdk/receipt"
)

func TestMain(m *testing.M) {
	if os.Getenv(AsCommands) != "" {
		if err := RunCommands(context.Background(), os.Stdin, os.Stdout); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(hosttest.Main(m))
}

// TestCommandsOnAHost runs commands next to a host, one after the other.
func TestCommandsOnAHost(t *testing.T) {
	t.Parallel()
	dir, database, host := hosttest.NewHost(t, hosttest.AllowLoopback)
	for name, test := range map[string]func(t *testing.T, host *hosttest.HostProcess, dir, database string){
		"graph": testGraphForget, "privacy": testPrivacyOfOperator, "feedback": testFeedbackOfACustomer,
		"overrides": testOverrides, "webhooks": testWebhooks,
	} {
		t.Run(name, func(t *testing.T) { test(t, host, dir, database) })
	}
	hosttest.Output(t, dir, database, "audit", "verify")
}

// testGraphForget deletes an account's contributions from the reputation graph, and then a value.
func testGraphForget(t *testing.T, host *hosttest.HostProcess, dir, database string) {
	t.Helper()
	var issued [2]apikey.Issued
	for i := range issued {
		issued[i] = hosttest.OutputJSON[apikey.Issued](t, dir, database, "keys", "create", "--plan", "starter")
		for _, domain := range []string{"one.example", "two.example"} {
			a := hosttest.CheckOnce(host, issued[i].Secret, `{"domain":"`+domain+`"}`)
			expect.Must(t, a.Status == http.StatusOK, "check: %+v", a)
		}
	}
	conn := storetest.Session(t, database)
	seen := func(account string) int {
		return storetest.Value[int](t, conn,
			"SELECT count(*) FROM graph_sightings WHERE account = graph_account($1)", account)
	}
	deleted := hosttest.OutputJSON[forgetResult](t, dir, database, "graph", "forget", "--account", issued[0].Account)
	expect.Equal(t, "sightings that were deleted", deleted.Sightings, 2)
	expect.Equal(t, "sightings of the account that are left", seen(issued[0].Account), 0)
	out := hosttest.Output(t, dir, database, "graph", "forget", "https://ONE.example/")
	hosttest.Has(t, out, "1 sightings and 0 links")
	expect.Equal(t, "sightings that a forgotten value leaves", seen(issued[1].Account), 1)
	for what, args := range map[string][]string{
		"give a value, --account, or both": {},
		"domain":                           {"--type", "domain", "no domain"},
	} {
		hosttest.WantRefusal(t, "graph forget", dir, database, nil, append([]string{"graph", "forget"}, args...), what)
	}
}

// A customer checks a domain, reports it with its value, and the operator sees the signals' tallies.
func testFeedbackOfACustomer(t *testing.T, host *hosttest.HostProcess, dir, database string) {
	t.Helper()
	issued := hosttest.OutputJSON[apikey.Issued](t, dir, database, "keys", "create", "--plan", "starter")
	checked := hosttest.CheckUntilComplete(host, issued.Secret, `{"domain":"paypa1-secure-login.xyz"}`)
	report := func(body string) (status int, kept feedback.Kept) {
		t.Helper()
		status, text := hosttest.Send(t, host, issued.Secret, "POST", "/api/feedback", body)
		if status == http.StatusOK {
			expect.NoError(t, json.Unmarshal([]byte(text), &kept))
		}
		return status, kept
	}
	status, _ := report(`{"ref":"` + checked.Ref + `","label":"fraud","domain":"example.org"}`)
	expect.Equal(t, "the status of feedback with another value", status, 400)
	status, kept := report(`{"ref":"` + checked.Ref + `","label":"fraud","domain":"PAYPA1-secure-login.xyz"}`)
	expect.That(t, status == 200 && kept.Scored && kept.Label == feedback.Fraud, "feedback: status %d, %+v", status,
		kept)
	lines := hosttest.OutputJSON[[]signalLine](t, dir, database, "feedback", "signals")
	expect.Must(t, len(lines) != 0, "no signal was counted")
	for _, l := range lines {
		expect.That(t, l.Fraud == 1 && l.Legitimate == 0 && l.Precision == 1, "%+v, want one label, of fraud", l)
	}
	hosttest.Has(t, hosttest.Output(t, dir, database, "feedback", "signals"), lines[0].Signal)
	shown := hosttest.OutputJSON[shownLayer](t, dir, database, "layers", "show", "domain")
	at := slices.IndexFunc(shown.Signals, func(s shownSignal) bool { return s.Code == "domain:brand:lookalike" })
	expect.That(t, shown.Labels == 1 && at >= 0 && shown.Signals[at].HitRate == 1 && shown.Signals[at].Precision == 1,
		"%+v", shown)
	hosttest.Has(t, hosttest.Output(t, dir, database, "layers", "show", "domain"), "domain:brand:lookalike", "100%")
	// Weights are fitted to feedback like to labelled values.
	rows := hosttest.WriteFile(t, "rows.jsonl", []byte(hosttest.Labelled))
	hosttest.Has(t, hosttest.Output(t, dir, database, "lineup", "fit", rows, "--feedback"), "to 17 rows")
}

// testPrivacyOfOperator exports and erases a person's data in all accounts, and of callers without a key.
func testPrivacyOfOperator(t *testing.T, host *hosttest.HostProcess, dir, database string) {
	t.Helper()
	const body = `{"domain":"jane-roe.example"}`
	for _, plan := range []string{"starter", "pro"} {
		issued := hosttest.OutputJSON[apikey.Issued](t, dir, database, "keys", "create", "--plan", plan)
		a := hosttest.CheckOnce(host, issued.Secret, body)
		expect.Must(t, a.Status == http.StatusOK, "check: %+v", a)
		if plan == "pro" {
			hosttest.Output(t, dir, database, "accounts", "suspend", issued.Account, "--reason", "chargebacks")
			a := hosttest.CheckOnce(host, issued.Secret, body)
			expect.That(t, a.Status == http.StatusForbidden && strings.Contains(a.Error, "the account is suspended"),
				"a check of a suspended account: %d, %s", a.Status, a.Error)
		}
	}
	status, text := hosttest.Send(t, host, "", "POST", "/api/check-public", body)
	expect.Must(t, status == http.StatusOK, "a check without a key: %d, %s", status, text)
	type document struct {
		Value    string
		Accounts map[string]struct {
			Checks   []privacy.Check
			Graph    *privacy.Sightings
			Erasures []privacy.Erasure
			Erased   int
		}
	}
	run := func(command, value string) document {
		return hosttest.OutputJSON[document](t, dir, database, "privacy", command, value)
	}
	before := run("export", "https://Jane-Roe.example/")
	expect.That(t, len(before.Accounts) == 3 && before.Value == "jane-roe.example", "exported %+v", before)
	for account, a := range before.Accounts {
		expect.Equal(t, "checks of "+account, len(a.Checks), 1)
	}
	for account, a := range run("erase", "jane-roe.example").Accounts {
		expect.Equal(t, "erased checks of "+account, a.Erased, 1)
	}
	again := run("erase", "jane-roe.example")
	expect.Equal(t, "accounts that erased it before", len(again.Accounts), 3)
	for account, a := range run("export", "jane-roe.example").Accounts { // what is left proves the erasure
		expect.That(t, again.Accounts[account].Erased == 0 && len(a.Checks) == 0 && a.Graph == nil &&
			len(a.Erasures) == 1, "account %s still has %+v", account, a)
	}
	expect.Equal(t, "accounts with data about another", len(run("erase", "john.example").Accounts), 0)
}

// TestStopDuringTheStart checks that a host which is stopped while it starts, here while it waits for its database,
// ends as one that was stopped later: with 0 and without an error.
func TestStopDuringTheStart(t *testing.T) {
	t.Parallel()
	database := expect.Value(net.Listen("tcp", "127.0.0.1:0"))(t)
	defer database.Close()
	cmd := hosttest.Command(t.Context(), hosttest.DataDir(t), "postgres://a@"+database.Addr().String()+"/a", "serve")
	var said strings.Builder
	cmd.Stderr = &said
	expect.NoError(t, cmd.Start())
	expect.Value(database.Accept())(t) // and never answers
	expect.NoError(t, cmd.Process.Signal(syscall.SIGTERM))
	err := cmd.Wait()
	expect.That(t, err == nil && !strings.Contains(said.String(), "assay:"), "the host ended with %v: %s", err, &said)
}

// TestSecondSignalEndsACommand stops a command that reads a pipe to which nobody writes.
func TestSecondSignalEndsACommand(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	pipe := filepath.Join(dir, "pipe")
	expect.NoError(t, syscall.Mkfifo(pipe, 0o600))
	cmd := hosttest.Command(t.Context(), dir, "", "audit", "verify-receipt", pipe, "--public-key", pipe)
	expect.NoError(t, cmd.Start())
	defer expect.Value(os.OpenFile(pipe, os.O_WRONLY, 0))(t).Close() // waits for the command to read
	ended := make(chan error)
	go func() { ended <- cmd.Wait() }()
	expect.Until(t, "the command to end", func() bool {
		return cmd.Process.Signal(syscall.SIGTERM) != nil && <-ended != nil
	})
}

func TestBenchEnv(t *testing.T) {
	t.Parallel()
	got := benchEnv([]string{"PATH=/bin", "ASSAY_WITNESS=x", "ASSAY_STRIPE_KEY=x", "ASSAY_SMTP_URL=x", "ASSAY_CHAINS=2",
		"ASSAY_CHECKPOINT_KEY=x", "ASSAY_DATABASE_CONNECTIONS=3", "ASSAY_DATABASE_URL=x", "GOGC=50"})
	want := []string{"PATH=/bin", "ASSAY_CHAINS=2", "ASSAY_DATABASE_CONNECTIONS=3", "GOGC=50", "ASSAY_CONFIG=",
		"ASSAY_DRAIN=0s", "ASSAY_DNS=off", "ASSAY_RDAP_URL=off"}
	expect.That(t, slices.Equal(got, want), "got %q, want %q", got, want)
}

// TestSecretRotation adds a generation to the secret of one of three hosts and copies it to another. All read each
// other's values until it is in use; then the two go on, and the third says what it lacks.
func TestSecretRotation(t *testing.T) {
	t.Parallel()
	database, first := postgrestest.Database(t), hosttest.OwnSecrets(t, hosttest.DataDir(t))
	stale := hosttest.OpenStore(t, first, database)
	third := hosttest.OwnSecrets(t, first)
	expect.NoError(t, os.Chmod(filepath.Join(first, "trust"), 0o644))
	hosttest.Has(t, hosttest.Output(t, first, database, "secret", "rotate", "--in=1h"), "Generation 2")
	expect.Equal(t, "the mode", expect.Value(os.Stat(filepath.Join(first, "trust")))(t).Mode(), fs.FileMode(0o644))
	a, b := hosttest.OpenStore(t, first, database), hosttest.OpenStore(t, hosttest.OwnSecrets(t, first), database)
	old := hosttest.OpenStore(t, third, database)
	open := func(by, sealed *installation.Backend) error {
		return expect.ErrorOf(by.Keys.Open(sealed.Keys.Seal([]byte("x"), "id"), "id"))
	}
	for _, by := range []*installation.Backend{a, b, old} {
		for _, other := range []*installation.Backend{a, b, old} {
			expect.NoError(t, open(by, other))
		}
		expect.NoError(t, by.Store.Signer().Ready(audit.Checkpoints|audit.Records))
	}
	expect.NoError(t, stale.Store.LearnKeys(t.Context())) // as a host does that runs meanwhile

	later := func() time.Time { return time.Now().Add(2 * time.Hour) }
	for _, h := range []*installation.Backend{a, b, old, stale} {
		h.Keys.Now, h.Store.Signer().Now = later, later
	}
	expect.NoError(t, open(a, b))
	expect.NoError(t, open(a, old))
	expect.That(t, open(old, a) != nil, "a host without the new secret reads its values")
	for _, h := range []*installation.Backend{old, stale} {
		expect.Error(t, "a host without the new secret", h.Store.Signer().Ready(audit.Records), audit.ErrKeyElsewhere)
		expect.That(t, len(server.KeyElsewhere(h.Store.Signer())) == 1, "the operator's page does not say so")
	}
	head := audit.TreeHead{Size: 3}
	signed := expect.Value(a.Store.Signer().SignTree(head))(t)
	expect.That(t, signed == expect.Value(b.Store.Signer().SignTree(head))(t),
		"two hosts sign the same tree with different keys")
	before := audit.NewSigner(audit.KeyName, a.Keys.SignSeed)
	expect.Failure(t, expect.ErrorOf(before.OpenTree(signed)), "the key did not change")
	expect.Equal(t, "origin", a.Store.Signer().Origin(0), before.Origin(0))
	trust := expect.Value(activation.ParseTrust(hosttest.ReadText(t, filepath.Join(first, "trust"))))(t)
	for _, h := range []*installation.Backend{a, old} { // what either signs is trusted
		note := expect.Value(activation.Sign(activation.Activation{Number: 1, Lineup: activation.Lineup{Revision: 1},
			Author: "x", Reason: "x", At: time.Now()}, expect.Value(h.HostKey())(t)))(t)
		by, err := trust.Open(note)
		expect.That(t, err == nil && by.Role == activation.Host, "a host's activation: %+v, %v", by, err)
	}
	hosttest.WantRefusal(t, "another, before", first, database, nil, []string{"secret", "rotate", "--in=0s"},
		"--in: generation 2 takes over at ")
	hosttest.WantRefusal(t, "one that is not in use", first, database, nil, []string{"secret", "remove", "2"},
		"in use, or will be")
}

// An acceptance of losses that was interrupted can be repeated: then every chain has one.
func TestAcceptLossIsRepeated(t *testing.T) {
	t.Parallel()
	database, dir := postgrestest.Database(t), hosttest.DataDir(t)
	hosttest.OpenStore(t, dir, database)
	conn := storetest.Session(t, database)
	storetest.Exec(t, conn, `INSERT INTO audit_losses (chain, seq, hash, answered_at, survived, refs, host)
			VALUES (0, 9, sha256(''), now(), 0, '{chk_1}', 'a')`,
		"ALTER TABLE audit_acceptances ADD CONSTRAINT interrupted CHECK (chain = 0)")
	accept := []string{"audit", "accept-loss", "--reason", "A standby took over."}
	hosttest.WantRefusal(t, "an interrupted acceptance", dir, database, nil, accept, "interrupted")
	storetest.Exec(t, conn, "ALTER TABLE audit_acceptances DROP CONSTRAINT interrupted")
	hosttest.Has(t, hosttest.Output(t, dir, database, accept...), "The loss is accepted by record")
	expect.Equal(t, "chains without an acceptance", storetest.Value[int](t, conn,
		"SELECT count(*) FROM audit_heads WHERE chain NOT IN (SELECT chain FROM audit_acceptances)"), 0)
}

// TestSecretRemoval removes a generation once nothing is encrypted under it.
func TestSecretRemoval(t *testing.T) {
	t.Parallel()
	database, dir := postgrestest.Database(t), hosttest.OwnSecrets(t, hosttest.DataDir(t))
	hosttest.OpenStore(t, dir, database)
	hosttest.Output(t, dir, database, "secret", "rotate", "--in=0s")
	account := hosttest.OutputJSON[apikey.Issued](t, dir, database, "keys", "create", "--plan", "pro").Account
	hosttest.Output(t, dir, database, "webhooks", "set", account, "--url", "https://receiver.example/")
	hosttest.Output(t, dir, database, "secret", "rotate", "--in=0s")
	list := hosttest.OutputJSON[[]generationReport](t, dir, database, "secret", "list")
	expect.That(t, len(list) == 3 && list[1].State == "former" && list[1].Values["webhook_endpoints"] == 1 &&
		list[2].State == "current" && len(list[2].Values) == 0, "%+v", list)
	remove := []string{"secret", "remove", "2"}
	hosttest.WantRefusal(t, "one that is needed", dir, database, nil, remove, "webhook_endpoints 1", "secret reseal")
	hosttest.WantRefusal(t, "the first", dir, database, nil, []string{"secret", "remove", "1"}, "pseudonyms")
	out := hosttest.Output(t, dir, database, "secret", "reseal")
	expect.That(t, strings.HasPrefix(out, "1 values"), "reseal printed %q", out)
	hosttest.Output(t, dir, database, remove...)
	out = hosttest.Output(t, dir, database, "secret", "list")
	expect.That(t, !strings.Contains(out, "former  2") && strings.Contains(out, "webhook_endpoints 1"), "left: %s", out)
	stale := hosttest.OwnSecrets(t, hosttest.DataDir(t))
	hosttest.WantRefusal(t, "a command with the old secret", stale, database, nil, []string{"audit", "verify"},
		"copy the secret file of another host")
	// The log is still signed by the newest key, and verified with the first.
	b := hosttest.OpenStore(t, dir, database)
	keys := hosttest.WriteFile(t, "keys", []byte(b.Store.Signer().TreeKey(0)+"\n"))
	expect.Equal(t, "statements", len(b.Store.Signer().Statements()), 2)
	expect.NoError(t, (&auditlog.Keeper{Store: b.Store, Signer: b.Store.Signer(),
		Logger: storetest.Discard()}).SignHeads(t.Context()))
	said, err := hosttest.TryOutput(t, dir, database, nil, "audit", "verify")
	expect.That(t, err == nil && strings.Contains(said, "are not looked for"), "where no host ran: %v, %s", err, said)
	export, link, pipe := hosttest.WriteFile(t, "export", nil), filepath.Join(dir, "link"), filepath.Join(dir, "pipe")
	expect.NoError(t, os.Symlink(export, link))
	expect.NoError(t, syscall.Mkfifo(pipe, 0o600))
	reader := expect.Value(os.OpenFile(pipe, os.O_RDWR, 0))(t)
	defer reader.Close()
	for file, kind := range map[string]fs.FileMode{link: fs.ModeSymlink, pipe: fs.ModeNamedPipe} {
		hosttest.Output(t, dir, database, "audit", "export", file)
		expect.Equal(t, "the type of "+file, expect.Value(os.Lstat(file))(t).Mode().Type(), kind)
	}
	hosttest.Output(t, dir, database, "audit", "verify", "--public-key", keys, "--offline", export)
}

// TestWitness starts the command twice in one directory: its key stays, and it remembers what it cosigned.
func TestWitness(t *testing.T) {
	t.Parallel()
	signer := audit.NewSigner("assay/audit", bytes.Repeat([]byte{1}, 32))
	trust := hosttest.WriteFile(t, "trust", []byte("# the log of a test\n\nverifier key: "+signer.TreeKey(0)+"\n"))
	state, tree := filepath.Join(t.TempDir(), "state"), expect.Value(audit.OpenTree(0, nil))(t)
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
		n := expect.Value(reader.Read(line))(t)
		_, url, ok := strings.Cut(strings.TrimSpace(string(line[:n])), "listening on ")
		expect.Must(t, ok, "it printed %q", line[:n])
		keys[i] = strings.TrimSpace(out.String())
		client := witness.NewClient(url, expect.Value(witness.ParseVerifier(keys[i]))(t), http.DefaultClient)
		var asked []int64
		_, err := client.Cosign(t.Context(), checkpoint, func(old int64) ([]audit.Hash, error) {
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
	expect.ErrorText(t, "a key that a group can read", expect.ErrorOf(witness.OpenKey(state, "one.example")),
		file+" (mode 640): run chmod 600 "+file)
}

// A receipt of before a rotation is compared with the log of after it.
func TestOldReceiptAfterRotation(t *testing.T) {
	t.Parallel()
	signer := audit.NewSigner(audit.KeyName, bytes.Repeat([]byte{1}, 32))
	record := audit.Record{Kind: audit.Check, At: "2026-01-02T03:04:05.006Z", Ref: "chk_1"}
	nonce := make([]byte, audit.NonceBytes)
	leaf := audit.Leaf(nonce, record)
	r := &receipt.Receipt{Format: receipt.Format, Record: receipt.NewRecord(nonce, record),
		Promise: expect.Value(signer.SignPromise(audit.Promise{Leaf: leaf, Until: time.Unix(1, 0)}))(t)}
	known := audit.NewSigner(audit.KeyName, bytes.Repeat([]byte{1}, 32)).Public
	_ = expect.Value(signer.Introduce(signer.Hold(bytes.Repeat([]byte{2}, 32)), audit.Checkpoints|audit.Records,
		time.Now().Add(-time.Hour)))(t)
	tree := &audit.Tree{}
	tree.Append(leaf)
	files := map[string]string{"/audit/0/keys": auditlog.Keys(signer.Public, audit.TreeHead{}),
		"/audit/0/tile/0/000.p/1": string(leaf[:]),
		"/audit/0/checkpoint":     expect.Value(signer.SignTree(tree.Head(0)))(t)}
	log := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, request *http.Request) {
		_, _ = w.Write([]byte(files[request.URL.Path]))
	}))
	t.Cleanup(log.Close)
	result, err := compareReceipt(t.Context(), r, known, 0, log.URL)
	expect.That(t, err == nil && result.Size == 1, "%+v, %v", result, err)
	thief := audit.NewSigner(audit.KeyName, bytes.Repeat([]byte{1}, 32)) // introduces another key
	_ = expect.Value(thief.Introduce(thief.Hold(bytes.Repeat([]byte{3}, 32)), audit.Checkpoints, time.Now()))(t)
	_, err = compareReceipt(t.Context(), r, thief.Public, 0, log.URL)
	expect.ErrorText(t, "a log with other keys than those kept", err, "two statements about key 2")
}

// What is longer than the limit is refused, not cut: a cut text would get a valid signature.
func TestLimitedInputs(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "key")
	hosttest.Output(t, file, "", "secret", "key", file)
	sign := hosttest.Command(t.Context(), file, "", "secret", "sign", file)
	sign.Stdin = strings.NewReader("assay/" + strings.Repeat("x", maxSignedText))
	out, err := sign.CombinedOutput()
	expect.That(t, err != nil && strings.Contains(string(out), "longer than 64 KiB"), "signed: %v, %s", err, out)
	log := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "12345") }))
	t.Cleanup(log.Close)
	expect.NoError(t, expect.ErrorOf(fetch(t.Context(), log.URL, 5)))
	expect.ErrorText(t, "a long answer", expect.ErrorOf(fetch(t.Context(), log.URL, 4)), "more than 4 bytes")
}
