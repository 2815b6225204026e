package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"assay/host/auditlog"
	"assay/host/keyring"
	"assay/host/lineup"
	"assay/host/postgres/postgrestest"
	"assay/host/sandbox"
	"assay/host/store"
	"assay/registry"
)

// asCommand is the variable that makes the test binary run the assay command, so that tests use real processes.
const asCommand = "ASSAY_TEST_AS_COMMAND"

func TestMain(m *testing.M) {
	// A host runs its own program as a compiler and to measure modules, without an environment.
	if os.Getenv(asCommand) != "" || slices.Equal(os.Args[1:], compilerCommand()[1:]) ||
		slices.Equal(os.Args[1:], measureCommand()[1:]) {
		os.Exit(run(context.Background(), os.Args[1:], os.Stdout, os.Stderr))
	}
	if os.Getenv(asCommands) != "" {
		if err := runCommands(context.Background(), os.Stdin, os.Stdout); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(withSharedDir(m))
}

// sharedDir is the data directory of a host that was started once. Others copy its built and compiled layers.
var (
	sharedDir     string
	sharedDirOnce sync.Once
)

// dataDir returns a new data directory that already contains the secret, the keys and the built and compiled layers.
func dataDir(t testing.TB) string {
	t.Helper()
	sharedDirOnce.Do(func() { fillSharedDir(t) })
	dir := t.TempDir()
	linkShared(t, dir, "secret", "trust", "operator.key", "layers", "compiled")
	return dir
}

// linkShared links files and folders of the shared directory into another data directory.
func linkShared(t testing.TB, dir string, names ...string) {
	t.Helper()
	for _, name := range names {
		err := filepath.WalkDir(filepath.Join(sharedDir, name), func(path string, d fs.DirEntry, err error) error {
			if err != nil {
				return err
			}
			rel, err := filepath.Rel(sharedDir, path)
			if err != nil {
				return err
			}
			if strings.HasPrefix(d.Name(), "private-") { // temporary: another test compiles a layer
				return fs.SkipDir
			}
			if d.IsDir() {
				return os.MkdirAll(filepath.Join(dir, rel), 0o700)
			}
			return os.Link(path, filepath.Join(dir, rel))
		})
		if err != nil {
			t.Fatal(err)
		}
	}
}

// fillSharedDir starts a host in the shared directory, which builds and compiles the layers. With the race detector, it
// is a program without it, whose compiler is many times faster.
func fillSharedDir(t testing.TB) {
	t.Helper()
	cmd := command(context.WithoutCancel(t.Context()), sharedDir, postgrestest.Database(t))
	if raceDetector {
		cmd.Path = filepath.Join(sharedDir, "assay")
		if out, err := exec.CommandContext(t.Context(), "go", "build", "-o", cmd.Path,
			".").CombinedOutput(); err != nil {
			t.Fatalf("building the host: %v\n%s", err, out)
		}
	}
	runHost(t, cmd).stop(t, syscall.SIGTERM)
}

// builtLayers returns the layers of this checkout.
func builtLayers(t testing.TB) []registry.Module {
	t.Helper()
	source, err := layerSource(".", &Config{DataDir: sharedDir}, quietLog(&terminal{err: t.Output()}))
	if err != nil {
		t.Fatal(err)
	}
	modules, err := source.BuildAll(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	return modules
}

// layerSandbox returns a sandbox that finds the layers of this checkout compiled, with the race detector too.
func layerSandbox(t testing.TB) *sandbox.Sandbox {
	t.Helper()
	sharedDirOnce.Do(func() { fillSharedDir(t) })
	keys, err := keyring.Load(filepath.Join(sharedDir, "secret"))
	if err != nil {
		t.Fatal(err)
	}
	return sandbox.New(sandbox.Config{CacheDir: filepath.Join(sharedDir, "compiled"), CacheKey: keys.Cache,
		Instances: 1, NeverSuspend: true, Logger: quietLog(&terminal{err: t.Output()})})
}

func withSharedDir(m *testing.M) int {
	dir, err := os.MkdirTemp("", "assay-host-test-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	sharedDir = dir
	if _, err := (&Config{DataDir: dir}).createInstallation(); err != nil { // it caches what tests build
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	postgrestest.Prepare(func(ctx context.Context, url string) error {
		t := &terminal{out: io.Discard, err: os.Stderr}
		b, err := openBackend(ctx, &Config{DataDir: dir, DatabaseURL: url}, t, quietLog(t), store.CreateSchema)
		if err != nil {
			return err
		}
		return b.close()
	})
	return postgrestest.Main(m)
}

// command returns the assay command with a data directory and a database. "" means the private database.
func command(ctx context.Context, dir, database string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, os.Args[0], args...)
	cmd.Env = []string{asCommand + "=1", "ASSAY_DATA_DIR=" + dir, "ASSAY_DATABASE_URL=" + database,
		"ASSAY_LISTEN=127.0.0.1:0", "ASSAY_DNS=off", "ASSAY_RDAP_URL=off", "ASSAY_DRAIN=0s",
		"ASSAY_RATES=off"} // most tests send more than customers do
	for _, name := range []string{"PATH", "HOME", "TMPDIR", "GOCACHE", "GOMODCACHE", "GOPATH", "GOPROXY", "GOFLAGS"} {
		if value, ok := os.LookupEnv(name); ok {
			cmd.Env = append(cmd.Env, name+"="+value)
		}
	}
	return cmd
}

// output runs a command, which must succeed, and returns its output.
func output(t *testing.T, dir, database string, args ...string) string {
	t.Helper()
	cmd := command(t.Context(), dir, database, args...)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("assay %s: %v\n%s", strings.Join(args, " "), err, stderr.String())
	}
	return string(out)
}

// outputJSON runs a command with --json, which must succeed, and decodes its output.
func outputJSON[T any](t *testing.T, dir, database string, args ...string) T {
	t.Helper()
	var v T
	if out := output(t, dir, database, append(args, "--json")...); json.Unmarshal([]byte(out), &v) != nil {
		t.Fatalf("assay %s printed unexpected JSON:\n%s", strings.Join(args, " "), out)
	}
	return v
}

// hostProcess is a running host.
type hostProcess struct {
	url   string
	admin string // URL for operators
	key   string // the demo key, on the private database
	cmd   *exec.Cmd
	done  chan error
}

// startHost starts a host and waits until it is ready. The host is stopped when the test ends.
func startHost(t testing.TB, dir, database string, args ...string) *hostProcess {
	t.Helper()
	return runHost(t, command(context.WithoutCancel(t.Context()), dir, database, args...))
}

// runHost is startHost for a command.
func runHost(t testing.TB, cmd *exec.Cmd) *hostProcess {
	t.Helper()
	h, err := tryHost(t, cmd)
	if err != nil {
		t.Fatal(err)
	}
	return h
}

// tryHost is like runHost, but a host that does not become ready is not a failure of the test.
func tryHost(t testing.TB, cmd *exec.Cmd) (*hostProcess, error) {
	h := &hostProcess{cmd: cmd, done: make(chan error, 1)}
	var stderr bytes.Buffer
	h.cmd.Stderr = &stderr
	out, err := h.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := h.cmd.Start(); err != nil {
		return nil, err
	}
	t.Cleanup(func() { h.stop(t, syscall.SIGTERM) })
	lines := bufio.NewScanner(out)
	if h.url, err = readURL(lines, greeting); err != nil {
		_ = h.cmd.Wait()
		h.done = nil
		return nil, fmt.Errorf("starting a host: %w\n%s", err, stderr.String())
	}
	for lines.Scan() {
		if url, ok := strings.CutPrefix(lines.Text(), adminGreeting); ok {
			h.admin = url
		}
		if key, ok := strings.CutPrefix(lines.Text(), "  key  "); ok {
			h.key = key
		}
		if strings.HasPrefix(lines.Text(), "  try") || strings.HasPrefix(lines.Text(), "  Create") {
			break
		}
	}
	go func() {
		_, _ = io.Copy(io.Discard, out)
		h.done <- h.cmd.Wait()
	}()
	return h, nil
}

// stop sends a signal and waits until the host exits. After SIGTERM its exit code must be 0.
func (h *hostProcess) stop(t testing.TB, sig syscall.Signal) {
	t.Helper()
	if h.done == nil {
		return
	}
	_ = h.cmd.Process.Signal(sig)
	if err := <-h.done; err != nil && sig == syscall.SIGTERM {
		t.Errorf("the host failed after SIGTERM: %v", err)
	}
	h.done = nil
}

// answer is a host's answer to a check.
type answer struct {
	Status  int      `json:"-"`
	Score   int      `json:"score"`
	Verdict string   `json:"verdict"`
	Signals []string `json:"signals"`
	Threat  *string  `json:"dominant_threat"`
	Type    string   `json:"type"`
	Ref     string   `json:"ref"`
	Error   string   `json:"error"`
	ResetAt string   `json:"reset_at"`
}

// event returns the name of the webhook event for the verdict.
func (a answer) event() string {
	if a.Verdict == "block" {
		return "check.blocked"
	}
	return "check." + a.Verdict
}

// degraded reports whether a layer could not run in time, as happens on a busy machine.
func (a answer) degraded() bool { return slices.ContainsFunc(a.Signals, degradedText) }

// degradedText reports whether a text contains the signal of a layer that could not run in time.
func degradedText(text string) bool { return strings.Contains(text, "layer failed; with it") }

// checkUntilComplete repeats a check until all layers have run in time.
func checkUntilComplete(host *hostProcess, key, body string) answer {
	var a answer
	repeat(func() bool {
		a = checkOnce(host, key, body)
		return !a.degraded()
	})
	return a
}

// checkOnce makes a single check, for tests that count checks. The answer may be degraded.
func checkOnce(host *hostProcess, key, body string) answer {
	return post(http.DefaultClient, host.url, key, body)
}

// repeat calls f until it returns true. It gives up only after so long that something hangs, however busy the machine.
func repeat(f func() bool) bool {
	pause := time.NewTicker(20 * time.Millisecond)
	defer pause.Stop()
	for deadline := time.Now().Add(3 * time.Minute); !f(); <-pause.C {
		if time.Now().After(deadline) {
			return false
		}
	}
	return true
}

// untilAccepted calls send until its status is not 503, which a busy machine causes and which counts nothing.
func untilAccepted(send func() (status int)) {
	repeat(func() bool { return send() != http.StatusServiceUnavailable })
}

// withinOneMonth calls f, again if a month ended meanwhile: the use of quotas is counted anew then.
func withinOneMonth(f func()) {
	for month := time.Month(0); month != time.Now().UTC().Month(); {
		month = time.Now().UTC().Month()
		f()
	}
}

// post makes a check, again after a refusal, and returns the answer. If the connection breaks, the status is 0.
func post(client *http.Client, url, key, body string) (a answer) {
	untilAccepted(func() int {
		a = postOnce(client, url, key, body)
		return a.Status
	})
	return a
}

func postOnce(client *http.Client, url, key, body string) answer {
	request, err := http.NewRequest(http.MethodPost, url+"/api/check", strings.NewReader(body))
	if err != nil {
		return answer{Error: err.Error()}
	}
	request.Header.Set("Authorization", "Bearer "+key)
	request.Header.Set("Content-Type", "application/json")
	response, err := client.Do(request)
	if err != nil {
		return answer{Error: err.Error()}
	}
	defer response.Body.Close()
	var a answer
	if err := json.NewDecoder(response.Body).Decode(&a); err != nil {
		return answer{Error: err.Error()}
	}
	a.Status = response.StatusCode
	return a
}

// installation returns the data directory and the database of a host that was started once: with a lineup in force.
func installation(t testing.TB) (dir, database string) {
	t.Helper()
	dir, database = dataDir(t), postgrestest.Database(t)
	b, cfg, out := openStore(t, dir, database), &Config{DataDir: dir}, &terminal{out: t.Output(), err: t.Output()}
	memory, err := lineup.OpenMemory(cfg.memoryFile())
	if err != nil {
		t.Fatal(err)
	}
	trusted, err := b.openAuthority(t.Context(), cfg, memory, true)
	if err != nil {
		t.Fatal(err)
	}
	modules, err := builtInLayers(t.Context(), cfg, out)
	if err != nil {
		t.Fatal(err)
	}
	if err := b.install(t.Context(), trusted, modules, quietLog(out)); err != nil {
		t.Fatal(err)
	}
	// A host would sign at once. Verification fails if no checkpoint covers records older than ten minutes.
	keeper := &auditlog.Keeper{Store: b.store, Signer: b.store.Signer(), Dir: cfg.checkpointDir(),
		Logger: quietLog(out)}
	if err := keeper.SignHeads(t.Context()); err != nil {
		t.Fatal(err)
	}
	return dir, database
}

// openStore opens a database with the secret in a data directory, as a host that starts.
func openStore(t testing.TB, dir, database string) *backend {
	t.Helper()
	b, err := openBackend(t.Context(), &Config{DataDir: dir, DatabaseURL: database},
		&terminal{out: t.Output(), err: t.Output()}, quietLog(&terminal{err: t.Output()}), store.CreateSchema)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := b.close(); err != nil {
			t.Error(err)
		}
	})
	return b
}

// activateLineup puts a lineup in force with the operator's key of a data directory, and returns its revision.
func activateLineup(ctx context.Context, b *backend, dir string, l registry.LineupDocument) (int64, error) {
	a, base, err := inForce(ctx, b, dir)
	if err != nil {
		return 0, err
	}
	if l, err = lineup.Pin(ctx, b.store, l, base.Document); err != nil {
		return 0, err
	}
	stored, err := lineup.StoreLineup(ctx, b.store, l, registry.OriginOperator)
	if err == nil {
		_, err = b.change(ctx, a, lineup.Proposal{Base: base.Activation, Lineup: stored, Reason: "a test"})
	}
	return stored.Revision, err
}

// rollbackLineup puts an earlier revision in force with the operator's key of a data directory.
func rollbackLineup(ctx context.Context, b *backend, dir string, revision int64) error {
	a, base, err := inForce(ctx, b, dir)
	if err != nil {
		return err
	}
	target, _, err := a.Earlier(ctx, base.Activation, revision)
	if err == nil {
		_, err = b.change(ctx, a, lineup.Proposal{Base: base.Activation, Lineup: target, Reason: "a test"})
	}
	return err
}

func inForce(ctx context.Context, b *backend, dir string) (*authority, lineup.Verified, error) {
	a, err := b.verifying(ctx, &Config{DataDir: dir})
	if err != nil {
		return nil, lineup.Verified{}, err
	}
	verified, err := a.inForce(ctx)
	return a, verified, err
}

func readText(t *testing.T, file string) string {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func writeJSON(t *testing.T, v any) string {
	t.Helper()
	data, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return writeFile(t, "lineup.json", data)
}

func writeFile(t *testing.T, name string, data []byte) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}
