package plugin

import (
	"context"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"
	"time"

	"assay/host/internal/terminal"
)

// watchInterval is how often a watched folder is checked for changes.
const watchInterval = 200 * time.Millisecond

// watch calls do now and after each change of a file or folder, and idle in between, until ctx ends. It prints the
// errors of do.
func watch(ctx context.Context, t *terminal.Terminal, path string, do func() error, idle func()) error {
	ticks := time.NewTicker(watchInterval)
	defer ticks.Stop()
	last := ""
	for {
		state, err := stateOf(path)
		if err != nil {
			return err
		}
		if state != last {
			last = state
			began := time.Now()
			if err := do(); err != nil && ctx.Err() == nil {
				fmt.Fprintln(t.Err, "assay:", err)
			}
			t.Printf("-- %s, %.1f s; watching %s\n", began.Format(time.TimeOnly), time.Since(began).Seconds(), path)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-ticks.C:
			idle()
		}
	}
}

// stateOf returns a text that changes when the sources at path do. Hidden files, modules and the output of other tools
// are not sources.
func stateOf(path string) (string, error) {
	var state strings.Builder
	err := filepath.WalkDir(path, func(file string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name := entry.Name()
		built := name == "node_modules" || name == "build" || filepath.Ext(name) == ".wasm"
		if file != path && (built || strings.HasPrefix(name, ".")) {
			if entry.IsDir() {
				return fs.SkipDir
			}
			return nil
		}
		info, err := entry.Info()
		if err == nil && !entry.IsDir() {
			fmt.Fprintln(&state, file, info.Size(), info.ModTime().UnixNano())
		}
		return err
	})
	return state.String(), err
}
