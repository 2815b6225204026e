package telemetry

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"assay/registry/expect"
)

// TestLogRotation checks that a file spans about a day however often the host restarts, and that it is deleted before
// its first line is 30 days old.
func TestLogRotation(t *testing.T) {
	t.Parallel()
	now := time.Now()
	line := func(age time.Duration) string {
		return `{"time":"` + now.Add(-age).Format(time.RFC3339Nano) + `","msg":"ready"}` + "\n"
	}
	for name, test := range map[string]struct {
		text  string
		files int
	}{
		"lines of today":                {line(23 * time.Hour), 1},
		"lines of yesterday":            {line(24 * time.Hour), 2},
		"lines of yesterday and today":  {line(25*time.Hour) + line(time.Hour), 2},
		"a line from the future":        {line(-time.Hour), 2},
		"an empty file":                 {"", 1},
		"a file that starts mid-record": {"ready\"}\n" + line(0), 2},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			expect.NoError(t, os.WriteFile(filepath.Join(dir, "assay.log"), []byte(test.text), 0o600))
			_, log, err := OpenLog(dir, t.Output())
			expect.NoError(t, err)
			defer log.Close()
			for range 2 {
				expect.NoError(t, log.RotateIfDue(now))
			}
			files, err := filepath.Glob(filepath.Join(dir, "*"))
			expect.That(t, err == nil && len(files) == test.files, "files %v, error %v, want %d files", files, err,
				test.files)
			// The file's first line is up to a day older than its last, and the deletion up to a day late.
			expect.That(t, log.file.MaxAge+2 < 30, "a rotated file is deleted after %d days", log.file.MaxAge)
		})
	}
}

func TestLogRotationWithoutFile(t *testing.T) {
	t.Parallel()
	_, log, err := OpenLog(filepath.Join(t.TempDir(), "logs"), t.Output())
	if err == nil {
		err = log.RotateIfDue(time.Now())
	}
	if err != nil {
		t.Error(err)
	}
}

// TestLogLines checks that every line reaches the file, in order, whoever writes it.
func TestLogLines(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	log, file, err := OpenLog(dir, t.Output())
	expect.NoError(t, err)
	const writers, lines = 4, 400 // together more than flushBytes
	var all sync.WaitGroup
	for writer := range writers {
		all.Go(func() {
			for n := range lines {
				log.Info("request", "writer", writer, "n", n)
			}
		})
	}
	all.Wait()
	expect.NoError(t, file.Close())
	text, err := os.ReadFile(filepath.Join(dir, "assay.log"))
	expect.Must(t, err == nil && len(text) >= flushBytes, "%d bytes, error %v", len(text), err)
	next := make([]int, writers)
	for line := range bytes.Lines(text) {
		var l struct{ Writer, N int }
		if err := json.Unmarshal(line, &l); err != nil || l.N != next[l.Writer] {
			t.Fatalf("line %q, want the writer's line %d; error %v", line, next[l.Writer], err)
		}
		next[l.Writer]++
	}
	for writer, n := range next {
		expect.That(t, n == lines, "%d lines of writer %d, want %d", n, writer, lines)
	}
}

// Lines that cannot be written, because the disk is full, are a problem that operators see.
func TestUnwrittenLog(t *testing.T) {
	t.Parallel()
	if _, err := os.Stat("/dev/full"); err != nil {
		t.Skip("this test needs /dev/full")
	}
	dir := t.TempDir()
	expect.NoError(t, os.Symlink("/dev/full", filepath.Join(dir, "assay.log")))
	log, file, err := OpenLog(dir, t.Output())
	expect.NoError(t, err)
	expect.NoDiff(t, "before the first line", []string(nil), file.Unwritten())
	log.Info("a line")
	file.flush()
	expect.NoDiff(t, "afterwards", []string{"the log cannot be written, and its lines are lost: write " + dir +
		"/assay.log: no space left on device"}, file.Unwritten())
	expect.NoError(t, os.Remove(filepath.Join(dir, "assay.log")))
	expect.NoError(t, file.Close())
	log.Info("a line")
	file.flush()
	expect.NoDiff(t, "with space", []string(nil), file.Unwritten())
	expect.NoError(t, file.Close())
}
