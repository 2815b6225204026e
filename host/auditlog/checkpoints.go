package auditlog

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"assay/host/audit"
)

// signerName is the origin of this product's checkpoints.
const signerName = "assay/audit"

// NewSigner returns the signer of checkpoints and anchors. seed is an Ed25519 seed.
func NewSigner(seed []byte) *audit.Signer { return audit.NewSigner(signerName, seed) }

// CheckpointDir is a directory of signed checkpoints and anchors, one file per day in UTC, so that old files can be
// archived. It is outside the database because it protects the database: an attacker who can write to the database
// cannot rewrite signed history.
type CheckpointDir string

// Files returns the paths of the directory's files.
func (d CheckpointDir) Files() ([]string, error) {
	return filepath.Glob(filepath.Join(string(d), "*.txt"))
}

// Append adds a signed checkpoint or anchor to today's file and syncs it to disk.
func (d CheckpointDir) Append(signed string) error {
	if err := os.MkdirAll(string(d), 0o700); err != nil {
		return fmt.Errorf("storing checkpoint: %w", err)
	}
	name := filepath.Join(string(d), time.Now().UTC().Format(time.DateOnly)+".txt")
	f, err := os.OpenFile(name, os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o600)
	if err != nil {
		return fmt.Errorf("storing checkpoint: %w", err)
	}
	_, err = f.WriteString(signed + "\n")
	if err := errors.Join(err, f.Sync(), f.Close()); err != nil {
		return fmt.Errorf("storing checkpoint: %w", err)
	}
	return nil
}

// ReadCheckpoints reads the heads in files of checkpoints and verifies their signatures.
func ReadCheckpoints(files []string, signer *audit.Signer) ([]audit.Head, error) {
	var heads []audit.Head
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		for _, signed := range audit.SplitCheckpoints(string(text)) {
			head, err := audit.OpenCheckpoint(signed, signer.VerifierKey())
			if err != nil {
				return nil, fmt.Errorf("reading %s: %w", file, err)
			}
			heads = append(heads, head)
		}
	}
	return heads, nil
}
