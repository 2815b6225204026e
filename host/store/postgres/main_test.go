//go:build linux || darwin

package postgres

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"assay/registry/expect"
)

// holdEnv names a data directory: the test binary opens it, prints the address, and closes it when its input ends.
const holdEnv = "ASSAY_POSTGRES_TEST_HOLD"

func TestMain(m *testing.M) {
	if dir := os.Getenv(holdEnv); dir != "" {
		if err := hold(dir); err != nil {
			fmt.Println("failed:", err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	code := m.Run()
	if created.dir != "" {
		_ = os.RemoveAll(created.dir)
	}
	os.Exit(code)
}

// created is a stopped cluster that tests copy, because creating one takes longest.
var created struct {
	once     sync.Once
	dir      string
	complete bool
}

// existing returns a data directory with a stopped cluster.
func existing(t *testing.T) string {
	t.Helper()
	dir := dataDir(t)
	created.once.Do(func() {
		created.dir = expect.Value(os.MkdirTemp(memory(), "assay-postgres-"))(t)
		expect.NoError(t, os.Chmod(created.dir, 0o711))
		c := expect.Value(Open(patience(t), Config{Dir: created.dir, Offline: true}))(t)
		expect.NoError(t, c.Close(patience(t)))
		created.complete = true
	})
	expect.Must(t, created.complete, "the cluster to copy was not created")
	from, to := filepath.Join(created.dir, "postgres"), filepath.Join(dir, "postgres")
	expect.NoError(t, copyTree(from, to, expect.Value(accountOf(from))(t)))
	r := expect.Value(readRecord(from + ".json"))(t)
	r.Port = 0 // each copy needs its own
	expect.NoError(t, r.write(to+".json"))
	return dir
}

// copyTree copies a folder of regular files and makes the account its owner.
func copyTree(from, to string, owner *account) error {
	if err := os.CopyFS(to, os.DirFS(from)); err != nil {
		return err
	}
	return filepath.WalkDir(to, func(path string, entry fs.DirEntry, err error) error {
		if err == nil && entry.IsDir() {
			err = os.Chmod(path, 0o700)
		}
		return errors.Join(err, owner.chown(path))
	})
}

func hold(dir string) error {
	c, err := Open(context.Background(), Config{Dir: dir, Offline: true})
	if err != nil {
		return err
	}
	fmt.Println(c.URL())
	if _, err := io.Copy(io.Discard, os.Stdin); err != nil {
		return err
	}
	return c.Close(context.Background())
}

// holder is another process that uses the cluster of a data directory.
type holder struct {
	url   string
	cmd   *exec.Cmd
	stdin io.Closer
}

// startHolder starts the other process and returns its standard output.
func startHolder(t *testing.T, dir string) (*holder, *bufio.Reader) {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), holdEnv+"="+dir)
	cmd.Stderr = os.Stderr
	stdin := expect.Value(cmd.StdinPipe())(t)
	stdout := expect.Value(cmd.StdoutPipe())(t)
	expect.NoError(t, cmd.Start())
	h := &holder{cmd: cmd, stdin: stdin}
	t.Cleanup(func() { h.kill() })
	return h, bufio.NewReader(stdout)
}

// openElsewhere opens the cluster in another process.
func openElsewhere(t *testing.T, dir string) *holder {
	t.Helper()
	h, stdout := startHolder(t, dir)
	line, err := stdout.ReadString('\n')
	expect.Must(t, err == nil && strings.HasPrefix(line, "postgres://"), "opening in another process: %q, %v", line,
		err)
	h.url = strings.TrimSpace(line)
	return h
}

// close makes the other process close the cluster.
func (h *holder) close(t *testing.T) {
	t.Helper()
	err := errors.Join(h.stdin.Close(), h.cmd.Wait())
	expect.Must(t, err == nil, "closing in another process: %v", err)
}

// kill ends the other process like a crash.
func (h *holder) kill() {
	_ = h.cmd.Process.Kill()
	_ = h.cmd.Wait()
}

// needPostgres skips the test on a machine without Postgres.
func needPostgres(t *testing.T) {
	t.Helper()
	if _, err := (search{}).binaries(t.Context()); errors.Is(err, ErrNotInstalled) {
		t.Skipf("this test needs Postgres: install Debian's postgresql: %v", err)
	}
}

// needRoot skips the test unless it can use the rights of other users.
func needRoot(t *testing.T) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("this test needs to be root")
	}
}

// memory is a folder in which clusters are created in a fraction of the time, or "" if it has no room.
var memory = sync.OnceValue(func() string {
	const folder, room = "/dev/shm", 1 << 30
	var free syscall.Statfs_t
	if err := syscall.Statfs(folder, &free); err != nil || free.Bavail*uint64(free.Bsize) < room {
		return ""
	}
	return folder
})

// reachable returns a new folder that every user can enter, unlike t.TempDir.
func reachable(t *testing.T) string {
	t.Helper()
	return reachableIn(t, "")
}

// reachableIn returns a new folder in parent, or in that of temporary files if parent is empty.
func reachableIn(t *testing.T, parent string) string {
	t.Helper()
	dir := expect.Value(os.MkdirTemp(parent, "assay-postgres-"))(t)
	expect.NoError(t, os.Chmod(dir, 0o711))
	dir = expect.Value(filepath.EvalSymlinks(dir))(t)
	t.Cleanup(func() {
		// A killed initdb may still be writing its last file.
		err := poll(patience(t), func() (bool, error) { return os.RemoveAll(dir) == nil, nil })
		expect.That(t, err == nil, "removing %s: %v", dir, err)
	})
	return dir
}

// patienceBound is exceeded only by a hang.
const patienceBound = time.Minute

// patience returns a context that ends after patienceBound or after the test's cleanup.
func patience(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patienceBound)
	t.Cleanup(cancel)
	return ctx
}

// dataDir returns a new data directory, and checks after the test that no Postgres was left running in it.
func dataDir(t *testing.T) string {
	t.Helper()
	needPostgres(t)
	dir := reachableIn(t, memory())
	t.Cleanup(func() {
		mustBeGone(t, filepath.Join(dir, "postgres"))
		noProcess(t, dir)
	})
	return dir
}

// noProcess waits until no process runs in the folder or has it among its arguments, because the processes of a killed
// Postgres or initdb take a moment to end. It sees processes only on Linux.
func noProcess(t *testing.T, dir string) {
	t.Helper()
	var left []string
	err := poll(patience(t), func() (bool, error) {
		left = nil
		all, _ := filepath.Glob("/proc/[0-9]*")
		for _, process := range all {
			command, _ := os.ReadFile(filepath.Join(process, "cmdline"))
			at, _ := os.Readlink(filepath.Join(process, "cwd"))
			if strings.Contains(string(command), dir) || strings.HasPrefix(at, dir) {
				left = append(left, process+" "+string(command))
			}
		}
		return left == nil, nil
	})
	expect.That(t, err == nil, "these processes still run: %q", left)
}

// mustBeGone fails the test if Postgres runs in the folder data, and stops it.
func mustBeGone(t *testing.T, data string) {
	t.Helper()
	if pid, _, _ := running(data); pid != 0 {
		t.Errorf("Postgres (process %d) still runs", pid)
		_ = syscall.Kill(pid, syscall.SIGQUIT)
	}
}

// mustOpen opens the cluster, and closes it after the test if the test does not.
func mustOpen(t *testing.T, cfg Config) *Cluster {
	t.Helper()
	cfg.Offline = true
	// Postgres must not end with the context of Open.
	ctx, cancel := context.WithTimeout(t.Context(), patienceBound)
	defer cancel()
	c := expect.Value(Open(ctx, cfg))(t)
	t.Cleanup(func() { expect.Error(t, "the end", c.Close(patience(t)), nil) })
	return c
}

// mustClose closes the cluster.
func mustClose(t *testing.T, c *Cluster) {
	t.Helper()
	expect.NoError(t, c.Close(patience(t)))
}

// mustRun returns the process number of the running Postgres.
func mustRun(t *testing.T, c *Cluster) int {
	t.Helper()
	pid, _, err := running(c.data)
	expect.Must(t, err == nil && pid != 0, "Postgres does not run: %v", err)
	return pid
}

// ask runs a statement on a new connection and returns its single value as text, or "" if it returns no row.
func ask(t *testing.T, url, query string) string {
	t.Helper()
	conn := expect.Value(pgx.Connect(t.Context(), url))(t)
	defer func() { _ = conn.Close(context.Background()) }()
	var value string
	err := conn.QueryRow(t.Context(), query).Scan(&value)
	expect.Must(t, err == nil || errors.Is(err, pgx.ErrNoRows), "%s: %v", query, err)
	return value
}

// killPostmaster kills the Postgres of the cluster as the system does when memory runs out.
func killPostmaster(t *testing.T, c *Cluster) {
	t.Helper()
	pid := mustRun(t, c)
	expect.NoError(t, syscall.Kill(pid, syscall.SIGKILL))
	expect.NoError(t, poll(patience(t), func() (bool, error) { return !isPostmaster(pid, c.data), nil }))
}
