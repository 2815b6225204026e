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

// Postgres turns its log over at log_rotation_size but never removes a file: keeping the newest keptLogs bounds the log
// to 50 MB, and what is written within tendEvery.
const (
	keptLogs  = 5
	tendEvery = time.Minute

	lastWordsBound = time.Second
)

// tendLogs removes old logs until ctx ends.
func (c *Cluster) tendLogs(ctx context.Context) {
	ticker := time.NewTicker(tendEvery)
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

// pruneLogs keeps the newest logs of the folder data. Its names sort by time. Confined to the folder, since root may do
// this in a folder of another user, who could put a symbolic link there.
func pruneLogs(data string) error {
	root, err := os.OpenRoot(data)
	if err != nil {
		return err
	}
	defer func() { _ = root.Close() }()
	names, err := fs.Glob(root.FS(), "log/postgres-*.log")
	if err != nil {
		return err
	}
	slices.Sort(names)
	for _, name := range names[:max(0, len(names)-keptLogs)] {
		if err := root.Remove(name); err != nil && !os.IsNotExist(err) {
			return err
		}
	}
	return nil
}

// logEnd is how far Postgres's own log went at some time.
type logEnd struct {
	name string // of the newest file, "" for none
	size int64
}

// logEnd returns how far the log goes now.
func (c *Cluster) logEnd() (end logEnd) {
	root, err := os.OpenRoot(c.data)
	if err != nil {
		return logEnd{}
	}
	defer func() { _ = root.Close() }()
	if names, _ := fs.Glob(root.FS(), "log/postgres-*.log"); len(names) > 0 {
		end.name = slices.Max(names)
	}
	if info, err := root.Stat(end.name); err == nil {
		end.size = info.Size()
	}
	return end
}

// said returns the last of what Postgres wrote since its log went to before: at first that goes to postgres.log.
//
// Its log is written by a process that ends a moment after Postgres itself, so said waits a little for the reason,
// which the server's messages call FATAL or PANIC under the locale that create chose.
func (c *Cluster) said(before logEnd) (last string) {
	bounded, cancel := context.WithTimeout(context.Background(), lastWordsBound)
	defer cancel()
	_ = poll(bounded, func() (bool, error) {
		text, _ := os.ReadFile(c.path("log"))
		now := c.logEnd()
		where := c.path("log")
		if now != before {
			where = filepath.Join(c.data, now.name)
			text = append(text, c.logSince(before, now)...)
		}
		last = lastLines(text) + " (from " + where + ")"
		return strings.Contains(last, "FATAL:") || strings.Contains(last, "PANIC:"), nil
	})
	return last
}

// logSince returns what the newest file of the log gained.
func (c *Cluster) logSince(before, now logEnd) []byte {
	root, err := os.OpenRoot(c.data)
	if err != nil {
		return nil
	}
	defer func() { _ = root.Close() }()
	own, _ := root.ReadFile(now.name)
	if now.name == before.name {
		own = own[min(before.size, int64(len(own))):]
	}
	return own
}

// lastLines returns the last lines that say something, as one.
func lastLines(text []byte) string {
	lines := slices.DeleteFunc(strings.Split(string(text), "\n"), func(line string) bool {
		return strings.TrimSpace(line) == ""
	})
	return strings.Join(lines[max(0, len(lines)-8):], "; ")
}
