//go:build linux || darwin

package postgres

import (
	"context"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// Postgres starts a new log file at log_rotation_size (10 MB) but never removes one, so the host keeps the newest five.
const (
	keptLogs       = 5
	pruneLogsEvery = time.Minute

	startOutputBound = time.Second
)

// keepPruningLogs removes old logs every minute until ctx ends.
func (c *Cluster) keepPruningLogs(ctx context.Context) {
	ticker := time.NewTicker(pruneLogsEvery)
	defer ticker.Stop()
	for {
		if err := pruneLogs(c.data); err != nil {
			c.log.Warn("removing old logs of Postgres", "error", err)
		}
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
	}
}

// openLogs lists the log files of the folder data, oldest first. Access is confined to the folder, which belongs to
// another user when this process is root: that user could have replaced a file with a symbolic link.
func openLogs(data string) (root *os.Root, names []string, err error) {
	if root, err = os.OpenRoot(data); err != nil {
		return nil, nil, err
	}
	names, _ = fs.Glob(root.FS(), "log/postgres-*.log") // fails only on a malformed pattern
	slices.Sort(names)
	return root, names, nil
}

// pruneLogs removes all but the newest logs of the folder data.
func pruneLogs(data string) error {
	root, names, err := openLogs(data)
	if err != nil {
		return err
	}
	defer func() { _ = root.Close() }()
	for _, name := range names[:max(0, len(names)-keptLogs)] {
		if err := root.Remove(name); err != nil && !os.IsNotExist(err) {
			return err
		}
	}
	return nil
}

// newestLog returns the newest log file's name and text, both empty if there is none.
func newestLog(data string) (name string, text []byte) {
	root, names, err := openLogs(data)
	if err != nil {
		return "", nil
	}
	defer func() { _ = root.Close() }()
	if len(names) > 0 {
		name = names[len(names)-1]
		text, _ = root.ReadFile(name)
	}
	return name, text
}

// startOutput returns the last lines that a failed start wrote: to postgres.log, then to Postgres's own log, whose
// newest file before the start was called name and had size bytes.
//
// A separate process writes that log and ends a moment after Postgres, so startOutput waits briefly for a FATAL or
// PANIC message. The locale that create chose keeps these words in English.
func (c *Cluster) startOutput(ctx context.Context, name string, size int) (last string) {
	ctx, cancel := context.WithTimeout(ctx, startOutputBound)
	defer cancel()
	_ = poll(ctx, func() (bool, error) {
		where := c.path("log")
		text, _ := os.ReadFile(where)
		newest, own := newestLog(c.data)
		if newest == name {
			own = own[min(size, len(own)):]
		}
		if len(own) > 0 {
			where, text = filepath.Join(c.data, newest), append(text, own...)
		}
		last = lastLines(text) + " (from " + where + ")"
		return strings.Contains(last, "FATAL:") || strings.Contains(last, "PANIC:"), nil
	})
	return last
}

// lastLines joins the last eight lines that are not blank.
func lastLines(text []byte) string {
	lines := slices.DeleteFunc(strings.Split(string(text), "\n"), func(line string) bool {
		return strings.TrimSpace(line) == ""
	})
	return strings.Join(lines[max(0, len(lines)-8):], "; ")
}
