//go:build linux || darwin

package postgres

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"sync"
	"syscall"
	"testing"

	"assay/registry/expect"
)

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
		holds(t, pid == want[0] && port == want[1], "parsePIDFile(%q) = %d, %d; want %v", text, pid, port, want)
	}
}

// A process number of 0 or less would signal whole groups of processes.
func FuzzParsePIDFile(f *testing.F) {
	f.Add("812\n/d\n17\n5433\n\n127.0.0.1\n   1  0\nready   \n")
	f.Add("-1")
	f.Add("99999999999999999999\n")
	f.Fuzz(func(t *testing.T, text string) {
		pid, port := parsePIDFile(text)
		holds(t, pid >= 0 && port >= 0, "parsePIDFile(%q) = %d, %d", text, pid, port)
	})
}

func TestIsPostmasterOfThisFolder(t *testing.T) {
	t.Parallel()
	c := mustOpen(t, Config{Dir: existing(t)})
	pid := mustRun(t, c)
	holds(t, !isPostmaster(pid, t.TempDir()), "isPostmaster accepts the Postgres of another folder")
	holds(t, !isPostmaster(os.Getpid(), c.data), "isPostmaster accepts this test")
	// Such as an operator's shell that received the number of an earlier Postgres.
	stranger := exec.CommandContext(t.Context(), "/bin/cat")
	stranger.Dir = c.data
	stdin, err := stranger.StdinPipe()
	if err == nil {
		err = stranger.Start()
	}
	expect.NoError(t, err)
	holds(t, !isPostmaster(stranger.Process.Pid, c.data), "isPostmaster accepts another program in the folder")
	report(t, errors.Join(stdin.Close(), stranger.Wait()))
	killPostmaster(t, c)
	holds(t, !isPostmaster(pid, c.data), "isPostmaster accepts a Postgres that has ended")
}

func TestPruneLogs(t *testing.T) {
	t.Parallel()
	data := t.TempDir()
	logs := filepath.Join(data, "log")
	expect.NoError(t, os.Mkdir(logs, 0o700))
	var want []string
	for day := range keptLogs + 3 {
		name := "postgres-2026010" + string(rune('1'+day)) + "-000000.log"
		if day >= 3 {
			want = append(want, name)
		}
		expect.NoError(t, os.WriteFile(filepath.Join(logs, name), nil, 0o600))
	}
	// Other files stay.
	expect.NoError(t, os.WriteFile(filepath.Join(logs, "notes"), nil, 0o600))
	expect.NoError(t, pruneLogs(data))
	expect.NoDiff(t, "kept", append([]string{"notes"}, want...), namesIn(t, logs))

	// If links were followed out of the folder, Postgres's user could make root remove files anywhere.
	elsewhere := t.TempDir()
	expect.NoError(t, os.Symlink(logs, filepath.Join(elsewhere, "log")))
	expect.NoError(t, os.WriteFile(filepath.Join(logs, "postgres-20260101-000000.log"), nil, 0o600))
	before := namesIn(t, logs)
	_ = pruneLogs(elsewhere)
	expect.NoDiff(t, "files after pruning through a link", before, namesIn(t, logs))
}

func namesIn(t *testing.T, dir string) (names []string) {
	t.Helper()
	entries := expect.Value(os.ReadDir(dir))(t)
	for _, entry := range entries {
		names = append(names, entry.Name())
	}
	slices.Sort(names)
	return names
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
	writing.Go(func() {
		report(t, rewrite(own, os.O_APPEND, "FATAL:  today\n"))
	})
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
			before, err := os.ReadFile(path)
			expect.NoError(t, err)
			expect.NoError(t, os.WriteFile(path, append(slices.Clone(before), broken.text...), 0o600))
			_, err = Open(patience(t), Config{Dir: dir, Offline: true})
			expect.ErrorText(t, "Open", err, broken.want)
			expect.NoError(t, os.WriteFile(path, before, 0o600))
		})
	}
}

func TestReleasedLockIsFree(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "lock")
	held := expect.Value(openLock(path))(t)
	if taken, err := held.try(syscall.LOCK_EX); !taken {
		t.Fatal(err)
	}
	// Like a child process between fork and exec.
	inherited := expect.Value(syscall.Dup(int(held.file.Fd())))(t)
	defer func() { _ = syscall.Close(inherited) }()
	held.release()
	next := expect.Value(openLock(path))(t)
	defer next.release()
	taken, err := next.try(syscall.LOCK_EX)
	holds(t, taken && err == nil, "try on a released lock = %t, %v", taken, err)
}
