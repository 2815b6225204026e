//go:build linux || darwin

package postgres

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"assay/host/internal/private"
)

// record is the content of postgres.json. Where a running Postgres listens is read from its own postmaster.pid.
type record struct {
	Password string    `json:"password"`
	Port     int       `json:"port,omitempty"`    // tried first at the next start, so that clients find it again
	Location string    `json:"location"`          // the cluster's folder, for people
	Created  time.Time `json:"created,omitzero"`  // zero until the cluster is complete at Location
	Machine  string    `json:"machine,omitempty"` // where Postgres was last started: see machine
}

// readRecord reads postgres.json; a missing file is the zero record.
func readRecord(path string) (record, error) {
	var r record
	text, err := private.Read(path)
	if errors.Is(err, fs.ErrNotExist) {
		return r, nil
	}
	if err == nil {
		err = json.Unmarshal(text, &r)
	}
	if err != nil {
		return record{}, fmt.Errorf("reading %s: %w", path, err)
	}
	return r, nil
}

// write stores the record durably.
func (r record) write(path string) error {
	text, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return fmt.Errorf("encoding %s: %w", path, err)
	}
	return writeDurable(path, append(text, '\n'))
}

// readLocation returns the content of postgres.location, or "" if there is no such file.
func readLocation(path string) (string, error) {
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	if err != nil {
		return "", fmt.Errorf("reading where the database is: %w", err)
	}
	home := strings.TrimSpace(string(text))
	if !filepath.IsAbs(home) {
		return "", fmt.Errorf("reading where the database is: %s holds %q, which is not an absolute path", path, home)
	}
	return home, nil
}

// writeDurable replaces a private file atomically and durably. The file keeps its owner, so that a command run once as
// root does not lock out the user who runs the host.
func writeDurable(path string, text []byte) (err error) {
	file, err := os.CreateTemp(filepath.Dir(path), filepath.Base(path)+".*")
	if err != nil {
		return fmt.Errorf("writing %s: %w", path, err)
	}
	defer func() {
		if err != nil {
			_ = os.Remove(file.Name())
			err = fmt.Errorf("writing %s: %w", path, err)
		}
	}()
	if info, missing := os.Stat(path); missing == nil && os.Geteuid() == 0 {
		owner := info.Sys().(*syscall.Stat_t)
		err = file.Chown(int(owner.Uid), int(owner.Gid))
	}
	_, writeErr := file.Write(text)
	if err = errors.Join(err, writeErr, file.Sync(), file.Close()); err != nil {
		return err
	}
	if err = os.Rename(file.Name(), path); err != nil {
		return err
	}
	return syncFolder(filepath.Dir(path))
}

// syncFolder makes renames inside the folder durable.
func syncFolder(path string) error {
	folder, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(folder.Sync(), folder.Close())
}
