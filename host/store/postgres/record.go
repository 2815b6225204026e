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
	"time"

	"assay/host/internal/durable"
	"assay/host/internal/private"
)

// record is the content of postgres.json. Where a running Postgres listens is read from its own postmaster.pid.
type record struct {
	Password string    `json:"password"`
	Port     int       `json:"port,omitempty"`    // tried first at the next start, so that clients find it again
	Location string    `json:"location"`          // the cluster's folder, for operators to read
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
	return durable.WriteFile(path, append(text, '\n'))
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
