package main

import (
	"bytes"
	"cmp"
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"time"

	"assay/host/audit"
	"assay/host/keyring"
)

// checkpointTimeout limits a signing command.
const checkpointTimeout = 5 * time.Second

// holdCheckpointKey gives a signer the key that the settings name. The command signs with each checkpoint key that is
// not here.
func (c *Config) holdCheckpointKey(ctx context.Context, signer *audit.Signer) error {
	if c.CheckpointKey != "" {
		seed, err := readCheckpointKey(c.CheckpointKey)
		if err != nil {
			return fmt.Errorf("ASSAY_CHECKPOINT_KEY: %w", err)
		}
		signer.Hold(seed)
	}
	if c.CheckpointCommand != "" {
		for _, key := range signer.Missing() {
			c.holdByCommand(ctx, signer, key)
		}
	}
	return nil
}

// holdByCommand lets the command sign with a key.
func (c *Config) holdByCommand(ctx context.Context, signer *audit.Signer, key ed25519.PublicKey) {
	ctx = context.WithoutCancel(ctx) // a host that stops signs to the end
	signer.HoldElsewhere(key, func(text []byte) ([]byte, error) {
		return signByCommand(ctx, checkpointTimeout, strings.Fields(c.CheckpointCommand), key, text)
	})
}

// signByCommand runs a program with a text as its input, and returns the signature in base64 that it prints. The
// program finds the public key in base64 in the variable CHECKPOINT_PUBLIC_KEY.
func signByCommand(ctx context.Context, limit time.Duration, command []string, key ed25519.PublicKey, text []byte) (
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
			err = fmt.Errorf("%w: %s", err, strings.TrimSpace(firstLine(string(failed.Stderr))))
		}
		return nil, fmt.Errorf("running ASSAY_CHECKPOINT_COMMAND: %w", err)
	}
	signature, err := base64.StdEncoding.DecodeString(string(bytes.TrimSpace(out)))
	if err != nil || !ed25519.Verify(key, text, signature) {
		return nil, errors.New("running ASSAY_CHECKPOINT_COMMAND: it did not print the key's signature in base64")
	}
	return signature, nil
}

// readCheckpointKey reads a file that secret key created.
func readCheckpointKey(file string) (seed []byte, err error) {
	text, err := keyring.ReadPrivate(file)
	if err != nil {
		return nil, err
	}
	seed, err = base64.StdEncoding.DecodeString(strings.TrimSpace(string(text)))
	if err != nil || len(seed) != ed25519.SeedSize {
		return nil, fmt.Errorf("%s is not the file of a key for checkpoints", file)
	}
	return seed, nil
}

func publicOf(seed []byte) ed25519.PublicKey {
	return ed25519.NewKeyFromSeed(seed).Public().(ed25519.PublicKey)
}

type secretKeyCmd struct {
	File string `arg:"" help:"File to create."`
}

// Run creates a key and prints its public key. It needs no installation.
func (cmd *secretKeyCmd) Run(t *terminal) error {
	if _, err := os.Stat(cmd.File); err == nil {
		return fmt.Errorf("%s exists already", cmd.File)
	}
	seed := make([]byte, ed25519.SeedSize)
	rand.Read(seed)
	if err := keyring.CreateFile(cmd.File, []byte(base64.StdEncoding.EncodeToString(seed)+"\n")); err != nil {
		return err
	}
	t.printf("%s\n", base64.StdEncoding.EncodeToString(publicOf(seed)))
	return nil
}

// maxSignedText is the most input that secret sign reads, in bytes. A checkpoint has less than 200.
const maxSignedText = 64 << 10

type secretSignCmd struct {
	File string `arg:"" help:"File of the key, as 'assay secret key' created it."`
}

// Run signs the text on the standard input, unless a key for checkpoints does not sign such texts. It needs no
// installation.
func (cmd *secretSignCmd) Run(t *terminal) error {
	seed, err := readCheckpointKey(cmd.File)
	if err != nil {
		return err
	}
	text, err := io.ReadAll(io.LimitReader(os.Stdin, maxSignedText))
	if err != nil {
		return err
	}
	if !audit.IsForCheckpointKey(text) {
		return errors.New("the text is not a checkpoint, an anchor or a statement about a key")
	}
	signature := ed25519.Sign(ed25519.NewKeyFromSeed(seed), text)
	t.printf("%s\n", base64.StdEncoding.EncodeToString(signature))
	return nil
}

type secretDelegateCmd struct {
	PublicKey string        `placeholder:"KEY" help:"${secret_public_key}"`
	In        time.Duration `default:"24h" placeholder:"TIME" help:"${secret_in}"`
}

// Run introduces a key that signs only checkpoints, in place of the one derived from the secret.
func (cmd *secretDelegateCmd) Run(ctx context.Context, cfg *Config, t *terminal) error {
	if cmd.In < 0 {
		return errors.New("--in: the time must not be in the past")
	}
	return withBackend(ctx, cfg, t, func(b *backend) error {
		signer := b.store.Signer()
		var key ed25519.PublicKey
		switch {
		case cfg.CheckpointKey != "" && cmd.PublicKey == "":
			seed, err := readCheckpointKey(cfg.CheckpointKey)
			if err != nil {
				return err
			}
			key = publicOf(seed)
		case cfg.CheckpointCommand != "" && cmd.PublicKey != "":
			decoded, err := base64.StdEncoding.DecodeString(cmd.PublicKey)
			if err != nil || len(decoded) != ed25519.PublicKeySize {
				return errors.New("--public-key: it is not what 'assay secret key' printed")
			}
			key = decoded
			cfg.holdByCommand(ctx, signer, key)
		default:
			return errors.New("set ASSAY_CHECKPOINT_KEY, or ASSAY_CHECKPOINT_COMMAND and --public-key")
		}
		from := b.store.Now().Add(cmd.In).Truncate(time.Second)
		if err := b.announce(ctx, key, audit.Checkpoints, from); err != nil {
			return err
		}
		t.printf("The key signs checkpoints from %s.\nBefore that, set it on all hosts as here, and restart them one "+
			"at a time.\n", from.UTC().Format(time.RFC3339))
		return nil
	})
}
