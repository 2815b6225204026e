package telemetry

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"time"

	"gopkg.in/natefinch/lumberjack.v2"

	"assay/host/customer/privacy"
	"assay/registry/fault"
)

// A rotated file is deleted maxLogDays after its last line. Its first line can be a day older than that, and the
// deletion can be a day late.
const (
	maxLogDays  = privacy.LogDays - 3
	maxLogMB    = 100
	rotateAfter = 24 * time.Hour
)

// LogFile is the host's log on disk: JSON lines in assay.log, and rotated files next to it. Lines are written together,
// at most flushAfter late, because writing each request's line would cost more than formatting it. A host that is
// killed loses the lines of that time; its checks are in the ledger.
type LogFile struct {
	file *lumberjack.Logger

	mu      sync.Mutex
	lines   []byte
	pending *time.Timer // writes lines; nil if there are none
	failed  error       // of the last write
}

const (
	flushAfter = 100 * time.Millisecond
	flushBytes = 32 << 10
)

// Write implements io.Writer for whole lines. Lines that cannot be written are lost. Unwritten reports that, because it
// cannot be logged.
func (l *LogFile) Write(line []byte) (int, error) {
	l.mu.Lock()
	l.lines = append(l.lines, line...)
	full := len(l.lines) >= flushBytes
	if !full && l.pending == nil {
		l.pending = time.AfterFunc(flushAfter, l.flush)
	}
	l.mu.Unlock()
	if full {
		l.flush()
	}
	return len(line), nil
}

// flush writes the collected lines.
func (l *LogFile) flush() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.pending != nil {
		l.pending.Stop()
		l.pending = nil
	}
	if len(l.lines) > 0 {
		_, l.failed = l.file.Write(l.lines)
		l.lines = l.lines[:0]
	}
}

// Unwritten returns a sentence if the last lines could not be written.
func (l *LogFile) Unwritten() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.failed == nil {
		return nil
	}
	return []string{"the log cannot be written, and its lines are lost: " + l.failed.Error()}
}

// OpenLog returns a log that writes JSON lines to a file in dir, and warnings and errors to the terminal too.
func OpenLog(dir string, terminal io.Writer) (*slog.Logger, *LogFile, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, nil, fmt.Errorf("opening log: %w", err)
	}
	file := &LogFile{file: &lumberjack.Logger{Filename: filepath.Join(dir, "assay.log"), MaxSize: maxLogMB,
		MaxAge: maxLogDays}}
	return slog.New(slog.NewMultiHandler(
		slog.NewJSONHandler(file, &slog.HandlerOptions{Level: slog.LevelInfo}),
		slog.NewTextHandler(terminal, &slog.HandlerOptions{Level: slog.LevelWarn}),
	)), file, nil
}

// RotateIfDue starts a new file if the first line of the current one is a day old. Rotating by size alone would let a
// quiet host keep lines for too long, and a timer would never fire on a host that restarts often.
func (l *LogFile) RotateIfDue(now time.Time) error {
	l.flush()
	f, err := os.Open(l.file.Filename)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("rotating log: %w", err)
	}
	defer f.Close()
	var first struct{ Time time.Time }
	err = json.NewDecoder(f).Decode(&first)
	age := now.Sub(first.Time)
	if errors.Is(err, io.EOF) || err == nil && age >= 0 && age < rotateAfter {
		return nil
	}
	// A file whose first line is unreadable or from the future has no known age, so it is rotated too.
	return fault.Wrap(l.file.Rotate(), "rotating log")
}

// Close writes the remaining lines and closes the file.
func (l *LogFile) Close() error {
	l.flush()
	return l.file.Close()
}
