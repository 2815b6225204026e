package installation

import (
	"bytes"
	"cmp"
	"context"
	"crypto/ed25519"
	"encoding/base64"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"time"

	"assay/host/audit"
	"assay/host/internal/private"
	"assay/host/internal/terminal"
)

// checkpointTimeout limits a signing command.
const checkpointTimeout = 5 * time.Second

// HoldCheckpointKey gives a signer the key that the settings name. For all other checkpoint keys, the signing command
// signs.
func (c *Config) HoldCheckpointKey(ctx context.Context, signer *audit.Signer) error {
	if c.CheckpointKey != "" {
		seed, err := ReadCheckpointKey(c.CheckpointKey)
		if err != nil {
			return fmt.Errorf("ASSAY_CHECKPOINT_KEY: %w", err)
		}
		signer.Hold(seed)
	}
	if c.CheckpointCommand != "" {
		for _, key := range signer.Missing() {
			c.HoldByCommand(ctx, signer, key)
		}
	}
	return nil
}

// HoldByCommand lets the command sign with a key.
func (c *Config) HoldByCommand(ctx context.Context, signer *audit.Signer, key ed25519.PublicKey) {
	ctx = context.WithoutCancel(ctx) // a host that stops signs to the end
	signer.HoldElsewhere(key, func(text []byte) ([]byte, error) {
		return SignByCommand(ctx, checkpointTimeout, strings.Fields(c.CheckpointCommand), key, text)
	})
}

// SignByCommand runs a program with a text as its input, and returns the signature in base64 that it prints. The
// program finds the public key in base64 in the variable CHECKPOINT_PUBLIC_KEY.
func SignByCommand(ctx context.Context, limit time.Duration, command []string, key ed25519.PublicKey, text []byte) (
	[]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	program := exec.CommandContext(ctx, command[0], command[1:]...)
	program.Stdin, program.WaitDelay = bytes.NewReader(text), time.Second
	program.Env = append(os.Environ(), "CHECKPOINT_PUBLIC_KEY="+base64.StdEncoding.EncodeToString(key))
	out, err := program.Output()
	if err = cmp.Or(ctx.Err(), err); err != nil {
		var failed *exec.ExitError
		if errors.As(err, &failed) {
			err = fmt.Errorf("%w: %s", err, strings.TrimSpace(terminal.FirstLine(string(failed.Stderr))))
		}
		return nil, fmt.Errorf("running ASSAY_CHECKPOINT_COMMAND: %w", err)
	}
	signature, err := base64.StdEncoding.DecodeString(string(bytes.TrimSpace(out)))
	if err != nil || !ed25519.Verify(key, text, signature) {
		return nil, errors.New("running ASSAY_CHECKPOINT_COMMAND: it did not print the key's signature in base64")
	}
	return signature, nil
}

// ReadCheckpointKey reads a file that secret key created.
func ReadCheckpointKey(file string) (seed []byte, err error) {
	text, err := private.Read(file)
	if err != nil {
		return nil, err
	}
	seed, err = base64.StdEncoding.DecodeString(strings.TrimSpace(string(text)))
	if err != nil || len(seed) != ed25519.SeedSize {
		return nil, fmt.Errorf("%s is not the file of a key for checkpoints", file)
	}
	return seed, nil
}
