//go:build linux || darwin

package postgres

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"assay/host/internal/durable"
	"assay/registry/expect"
)

func TestKilledDuringInitdb(t *testing.T) {
	t.Parallel()
	for !killedDuringInitdb(t) { // the test was too slow
	}
}

// killedDuringInitdb reports whether initdb had not ended when it was killed.
func killedDuringInitdb(t *testing.T) bool {
	t.Helper()
	dir := dataDir(t)
	other, _ := startHolder(t, dir)
	err := poll(patience(t), func() (bool, error) {
		begun, _ := filepath.Glob(filepath.Join(dir, "postgres.new-*", "data", "base"))
		return len(begun) > 0 || isFolder(filepath.Join(dir, "postgres")), nil
	})
	expect.NoError(t, err)
	other.kill()
	complete := isFolder(filepath.Join(dir, "postgres"))
	ask(t, mustOpen(t, Config{Dir: dir}).URL(), "SELECT 'alive'")
	return !complete
}

// TestInterruptedCreation starts from the states that a crash between the steps of create leaves.
func TestInterruptedCreation(t *testing.T) {
	t.Parallel()
	needPostgres(t)
	expect.Each(t, map[string]func(dir string) error{
		"with a password and an empty folder": func(dir string) error {
			r := record{Password: "earlier", Location: filepath.Join(dir, "postgres")}
			return errors.Join(os.Mkdir(filepath.Join(dir, "postgres"), 0o700),
				os.MkdirAll(filepath.Join(dir, "postgres.new-1", "data", "base"), 0o700),
				r.write(filepath.Join(dir, "postgres.json")))
		},
		"with a location whose folder is lost": func(dir string) error {
			return durable.WriteFile(filepath.Join(dir, "postgres.location"), []byte(dir+"/lost\n"))
		},
	}, func(t *testing.T, leave func(dir string) error) {
		dir := dataDir(t)
		expect.NoError(t, leave(dir))
		ask(t, mustOpen(t, Config{Dir: dir}).URL(), "SELECT 'alive'")
		left, _ := filepath.Glob(filepath.Join(dir, "postgres.new-*"))
		expect.That(t, left == nil, "Open left %v", left)
	})
}

// A database that is missing is not replaced, and others may not read its password.
func TestRefusedRecords(t *testing.T) {
	t.Parallel()
	dir := reachable(t)
	path := filepath.Join(dir, "postgres.json")
	for mode, want := range map[os.FileMode]string{0o600: "restore it, or remove",
		0o640: path + " (mode 640): run chmod 600 " + path} {
		expect.NoError(t, (record{Password: "p", Created: time.Unix(1_700_000_000, 0)}).write(path))
		expect.NoError(t, os.Chmod(path, mode))
		expect.ErrorText(t, "Open", expect.ErrorOf(Open(t.Context(), Config{Dir: dir, Offline: true})), want)
	}
}

func TestFallbackDir(t *testing.T) {
	t.Parallel()
	needRoot(t)
	closed, refuge := dataDir(t), filepath.Join(reachable(t), "refuge")
	expect.NoError(t, os.Chmod(closed, 0o700))
	dir := filepath.Join(closed, "inside")
	c := mustOpen(t, Config{Dir: dir, fallbackDir: refuge})
	t.Cleanup(func() { mustBeGone(t, c.data) })
	home, err := readLocation(filepath.Join(dir, "postgres.location"))
	expect.Must(t, err == nil && filepath.Dir(home) == refuge && c.data == filepath.Join(home, "postgres"),
		"postgres.location contains %q (%v), the cluster is in %s; want a folder in %s", home, err, c.data, refuge)
	ask(t, c.URL(), "CREATE TABLE kept AS SELECT 'committed' AS text")
	mustClose(t, c)
	again := mustOpen(t, Config{Dir: dir, fallbackDir: refuge})
	expect.Equal(t, "the table after reopening", ask(t, again.URL(), "SELECT text FROM kept"), "committed")

	nowhere := Config{Dir: filepath.Join(closed, "other"), fallbackDir: filepath.Join(closed, "refuge"), Offline: true}
	_, err = Open(t.Context(), nowhere)
	expect.ErrorText(t, "without any usable folder, Open", err, "can enter neither")
}

// writeProgram writes a file that will be executed. No other test may fork meanwhile: its child would inherit the open
// file, and a file that is open for writing cannot be executed.
func writeProgram(path string, content []byte) error {
	syscall.ForkLock.RLock()
	defer syscall.ForkLock.RUnlock()
	return os.WriteFile(path, content, 0o755)
}

// TestOrdinaryUser runs TestReopenKeepsData as nobody, because tests in containers usually run as root.
func TestOrdinaryUser(t *testing.T) {
	t.Parallel()
	needRoot(t)
	needPostgres(t)
	nobody, err := user.Lookup("nobody")
	if err != nil {
		t.Skip("this machine has no user nobody")
	}
	uid, err := strconv.ParseUint(nobody.Uid, 10, 32)
	if err != nil {
		t.Skipf("nobody is number %s here", nobody.Uid)
	}
	account := &account{uid: uint32(uid), gid: uint32(uid), name: "nobody"}
	temporary := reachable(t)
	// The test binary is in a folder that only root can enter.
	program := filepath.Join(reachable(t), "program")
	expect.NoError(t, writeProgram(program, expect.Value(os.ReadFile(os.Args[0]))(t)))
	expect.NoError(t, account.chown(temporary))
	cmd := account.command(patience(t), program, "-test.run=^TestReopenKeepsData$", "-test.v")
	cmd.Env = append(cmd.Env, "TMPDIR="+temporary)
	output, err := cmd.CombinedOutput()
	expect.That(t, err == nil && strings.Contains(string(output), "--- PASS: TestReopenKeepsData"), "as nobody: %v\n%s",
		err, output)
}

func TestOtherMajorVersion(t *testing.T) {
	t.Parallel()
	dir := reachable(t)
	data := filepath.Join(dir, "postgres")
	expect.NoError(t, os.Mkdir(data, 0o700))
	expect.NoError(t, os.WriteFile(filepath.Join(data, "PG_VERSION"), []byte("15\n"), 0o644))
	expect.NoError(t, (record{Password: "p"}).write(filepath.Join(dir, "postgres.json")))
	expect.NoError(t, expect.Value(unprivileged())(t).chown(data))
	seventeen := fakePrograms(t, filepath.Join(reachable(t), "17", "bin"), "17.2")
	_, err := Open(t.Context(), Config{Dir: dir, folders: []string{seventeen}})
	for _, part := range []string{data, "Postgres 15", "17 in " + seventeen} {
		expect.ErrorText(t, "Open", err, part)
	}
}

func TestAccountOf(t *testing.T) {
	t.Parallel()
	needRoot(t)
	dir := reachable(t)
	expect.ErrorText(t, "accountOf(root's folder)", expect.ErrorOf(accountOf(dir)), "belongs to root")
	expect.NoError(t, (&account{uid: 4321, gid: 8765}).chown(dir))
	got, err := accountOf(dir)
	expect.That(t, err == nil && got.uid == 4321 && got.gid == 8765, "accountOf = %+v, %v; want the folder's owner",
		got, err)
}

func TestRecordKeepsItsOwner(t *testing.T) {
	t.Parallel()
	needRoot(t)
	path := filepath.Join(t.TempDir(), "postgres.json")
	for _, uid := range []int{0, 4321} {
		expect.NoError(t, (record{Password: "p"}).write(path))
		info := expect.Value(os.Stat(path))(t)
		expect.Equal(t, "the file's owner", int(info.Sys().(*syscall.Stat_t).Uid), uid)
		expect.Equal(t, "its mode", info.Mode(), 0o600)
		expect.NoError(t, os.Chown(path, 4321, 4321))
	}
}

func TestExecutes(t *testing.T) {
	t.Parallel()
	needRoot(t)
	other := &account{uid: 4_000_000, gid: 4_000_000}
	for mode, want := range map[os.FileMode]bool{0o701: true, 0o776: false, 0o700: false} {
		middle := filepath.Join(reachable(t), "middle")
		inner := filepath.Join(middle, "inner")
		expect.NoError(t, errors.Join(os.MkdirAll(inner, 0o755), os.Chmod(middle, mode)))
		expect.Equal(t, fmt.Sprintf("executes below a folder with mode %o", mode),
			other.executes(t.Context(), inner), want)
	}
}

func TestEnvironmentIsNotInherited(t *testing.T) {
	t.Parallel()
	for _, pair := range (*account)(nil).command(t.Context(), "/bin/true").Env {
		name, _, _ := strings.Cut(pair, "=")
		expect.That(t, slices.Contains([]string{"LC_ALL", "TZ", "PATH", "LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH"}, name),
			"Postgres receives %s, which could be a secret of the host", name)
	}
}

func TestParsePIDFile(t *testing.T) {
	t.Parallel()
	for text, want := range map[string][2]int{
		"812\n/d\n17\n5433\n\n127.0.0.1\n   1  0\nready   \n": {812, 5433},
		"812\n/d\n17\n":          {812, 0}, // no port yet
		"-812\n/d\n17\n":         {0, 0},   // a standalone backend
		"":                       {0, 0},
		"x\ny\n":                 {0, 0},
		"99999999999999999999\n": {0, 0},
	} {
		pid, port := parsePIDFile(text)
		expect.That(t, pid == want[0] && port == want[1], "parsePIDFile(%q) = %d, %d; want %v", text, pid, port, want)
	}
}

// A process number of 0 or less would signal whole groups of processes.
func FuzzParsePIDFile(f *testing.F) {
	f.Add("812\n/d\n17\n5433\n\n127.0.0.1\n   1  0\nready   \n")
	f.Add("-1")
	f.Add("99999999999999999999\n")
	f.Fuzz(func(t *testing.T, text string) {
		pid, port := parsePIDFile(text)
		expect.That(t, pid >= 0 && port >= 0, "parsePIDFile(%q) = %d, %d", text, pid, port)
	})
}

func TestIsPostmasterOfThisFolder(t *testing.T) {
	t.Parallel()
	c := mustOpen(t, Config{Dir: existing(t)})
	pid := mustRun(t, c)
	expect.That(t, !isPostmaster(pid, t.TempDir()), "isPostmaster accepts the Postgres of another folder")
	expect.That(t, !isPostmaster(os.Getpid(), c.data), "isPostmaster accepts this test")
	// Such as an operator's shell that received the number of an earlier Postgres.
	stranger := exec.CommandContext(t.Context(), "/bin/cat")
	stranger.Dir = c.data
	stdin := expect.Value(stranger.StdinPipe())(t)
	expect.NoError(t, stranger.Start())
	expect.That(t, !isPostmaster(stranger.Process.Pid, c.data), "isPostmaster accepts another program in the folder")
	expect.Error(t, "the end", errors.Join(stdin.Close(), stranger.Wait()), nil)
	killPostmaster(t, c)
	expect.That(t, !isPostmaster(pid, c.data), "isPostmaster accepts a Postgres that has ended")
}

func TestPruneLogs(t *testing.T) {
	t.Parallel()
	data := t.TempDir()
	logs := filepath.Join(data, "log")
	expect.NoError(t, os.Mkdir(logs, 0o700))
	var want []string
	for day := range keptLogs + 3 {
		name := filepath.Join(logs, "postgres-2026010"+string(rune('1'+day))+"-000000.log")
		if day >= 3 {
			want = append(want, name)
		}
		expect.NoError(t, os.WriteFile(name, nil, 0o600))
	}
	files := func() []string { return expect.Value(filepath.Glob(filepath.Join(logs, "*")))(t) }
	notes := filepath.Join(logs, "notes") // other files stay
	expect.NoError(t, os.WriteFile(notes, nil, 0o600))
	expect.NoError(t, pruneLogs(data))
	expect.NoDiff(t, "kept", append([]string{notes}, want...), files())

	// If links were followed out of the folder, Postgres's user could make root remove files anywhere.
	elsewhere := t.TempDir()
	expect.NoError(t, os.Symlink(logs, filepath.Join(elsewhere, "log")))
	expect.NoError(t, os.WriteFile(filepath.Join(logs, "postgres-20260101-000000.log"), nil, 0o600))
	before := files()
	_ = pruneLogs(elsewhere)
	expect.NoDiff(t, "files after pruning through a link", before, files())
}

func TestStartErrorIsOfTheLastStart(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	c := Cluster{dir: dir, data: filepath.Join(dir, "postgres")}
	own := filepath.Join(c.data, "log", "postgres-1.log")
	expect.NoError(t, errors.Join(os.MkdirAll(filepath.Dir(own), 0o700),
		os.WriteFile(c.path("log"), []byte("LOG:  first\n"), 0o600),
		os.WriteFile(own, []byte("FATAL:  yesterday\n"), 0o600)))
	name, text := newestLog(c.data)
	// Postgres's log is written a little after Postgres ended.
	var writing sync.WaitGroup
	defer writing.Wait()
	writing.Go(func() { expect.Error(t, "the end", rewrite(own, os.O_APPEND, "FATAL:  today\n"), nil) })
	want := "LOG:  first; FATAL:  today (from " + own + ")"
	expect.Equal(t, "startOutput", c.startOutput(t.Context(), name, len(text)), want)
}

func TestStartErrorQuotesPostgres(t *testing.T) {
	t.Parallel()
	dir := existing(t)
	data := filepath.Join(dir, "postgres")
	for name, broken := range map[string]struct{ file, text, want string }{
		"before its log is open": {"postgresql.conf", "\nno_such_setting = 1\n", "no_such_setting"},
		"in its log":             {"pg_hba.conf", "nonsense\n", "pg_hba.conf"},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(data, broken.file)
			before := expect.Value(os.ReadFile(path))(t)
			expect.NoError(t, os.WriteFile(path, append(slices.Clone(before), broken.text...), 0o600))
			expect.ErrorText(t, "Open", expect.ErrorOf(Open(patience(t), Config{Dir: dir, Offline: true})), broken.want)
			expect.NoError(t, os.WriteFile(path, before, 0o600))
		})
	}
}

func TestReleasedLockIsFree(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "lock")
	held := expect.Value(openLock(path))(t)
	expect.Must(t, expect.Value(held.try(syscall.LOCK_EX))(t), "the lock is taken")
	// Like a child process between fork and exec.
	inherited := expect.Value(syscall.Dup(int(held.file.Fd())))(t)
	defer func() { _ = syscall.Close(inherited) }()
	held.release()
	next := expect.Value(openLock(path))(t)
	defer next.release()
	expect.That(t, expect.Value(next.try(syscall.LOCK_EX))(t), "the released lock is taken")
}
