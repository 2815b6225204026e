package cli

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"assay/host/access/keyring"
	"assay/host/audit"
	"assay/host/installation"
	"assay/host/internal/terminal"
)

// PublicOf returns the public key of a seed.
func PublicOf(seed []byte) ed25519.PublicKey {
	return ed25519.NewKeyFromSeed(seed).Public().(ed25519.PublicKey)
}

type secretKeyCmd struct {
	File string `arg:"" help:"File to create."`
}

// Run creates a key and prints its public key. It needs no installation.
func (cmd *secretKeyCmd) Run(t *terminal.Terminal) error {
	if _, err := os.Stat(cmd.File); err == nil {
		return fmt.Errorf("%s exists already", cmd.File)
	}
	seed := make([]byte, ed25519.SeedSize)
	rand.Read(seed)
	if err := keyring.CreateFile(cmd.File, []byte(base64.StdEncoding.EncodeToString(seed)+"\n")); err != nil {
		return err
	}
	t.Printf("%s\n", base64.StdEncoding.EncodeToString(PublicOf(seed)))
	return nil
}

// maxSignedText limits the input of secret sign, in bytes. A checkpoint has less than 200.
const maxSignedText = 64 << 10

type secretSignCmd struct {
	File string `arg:"" help:"File of the key, as 'assay secret key' created it."`
}

// Run signs the text on the standard input if keys for checkpoints sign such texts. It needs no installation.
func (cmd *secretSignCmd) Run(t *terminal.Terminal) error {
	seed, err := installation.ReadCheckpointKey(cmd.File)
	if err != nil {
		return err
	}
	text, err := io.ReadAll(io.LimitReader(os.Stdin, maxSignedText+1))
	if err != nil {
		return err
	}
	if len(text) > maxSignedText || !audit.IsForCheckpointKey(text) {
		return errors.New("the text is not a checkpoint, an anchor or a statement about a key, or longer than 64 KiB")
	}
	signature := ed25519.Sign(ed25519.NewKeyFromSeed(seed), text)
	t.Printf("%s\n", base64.StdEncoding.EncodeToString(signature))
	return nil
}

type secretDelegateCmd struct {
	PublicKey string        `placeholder:"KEY" help:"${secret_public_key}"`
	In        time.Duration `default:"24h" placeholder:"TIME" help:"${secret_in}"`
}

// Run introduces a key that signs only checkpoints, in place of the one derived from the secret.
func (cmd *secretDelegateCmd) Run(ctx context.Context, c *installation.Command) error {
	if cmd.In < 0 {
		return errors.New("--in: the time must not be in the past")
	}
	s, err := c.Open(ctx)
	if err != nil {
		return err
	}
	var key ed25519.PublicKey
	switch {
	case c.CheckpointKey != "" && cmd.PublicKey == "":
		seed, err := installation.ReadCheckpointKey(c.CheckpointKey)
		if err != nil {
			return err
		}
		key = PublicOf(seed)
	case c.CheckpointCommand != "" && cmd.PublicKey != "":
		decoded, err := base64.StdEncoding.DecodeString(cmd.PublicKey)
		if err != nil || len(decoded) != ed25519.PublicKeySize {
			return errors.New("--public-key: it is not what 'assay secret key' printed")
		}
		key = decoded
		c.HoldByCommand(ctx, s.Store.Signer(), key)
	default:
		return errors.New("set ASSAY_CHECKPOINT_KEY, or ASSAY_CHECKPOINT_COMMAND and --public-key")
	}
	from := s.Store.Now().Add(cmd.In).Truncate(time.Second)
	if err := announce(ctx, s.Store, key, audit.Checkpoints, from); err != nil {
		return err
	}
	c.Printf("The key signs checkpoints from %s.\nBefore that, set it on all hosts as here, and restart them one "+
		"at a time.\nKeep a copy of the key: if it is lost, nothing can replace it.\n", from.UTC().Format(time.RFC3339))
	return nil
}
