package cli

import (
	"context"
	"crypto/ed25519"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"assay/host/access/keyring"
	"assay/host/audit"
	"assay/host/installation"
	"assay/host/store"
	"assay/registry/activation"
)

type secretRotateCmd struct {
	In time.Duration `default:"24h" placeholder:"TIME" help:"${secret_in}"`
}

// maxRotateIn limits the effect of a mistake: no generation can take over before one that is announced.
const maxRotateIn = 30 * 24 * time.Hour

// Run adds a generation to the secret file, introduces its key to the audit log and lists its host's key in the trust
// file. It continues with a generation that it could not introduce before: it writes the file first, so that it never
// announces a key that is lost.
func (cmd *secretRotateCmd) Run(ctx context.Context, c *installation.Command) error {
	if cmd.In < 0 || cmd.In > maxRotateIn {
		return fmt.Errorf("--in: must be 0 to %v", maxRotateIn)
	}
	s, err := c.Open(ctx)
	if err != nil {
		return err
	}
	signer := s.Store.Signer()
	if err := signer.CanIntroduce(); err != nil {
		return err
	}
	next, err := cmd.generation(s, signer.Public)
	if err != nil {
		return err
	}
	if err := introduce(ctx, s, signer.Hold(next.SignSeed), next.From); err != nil {
		return err
	}
	host, err := activation.NewKey(installation.HostKeyName, next.Activation)
	if err != nil {
		return err
	}
	line := fmt.Sprintf("%s %s", activation.Host, host.Verifier)
	if err := addTrustLine(c.TrustPath(), line); err != nil {
		fmt.Fprintf(c.Err, "The trust file was not changed (%v). Add this line to it:\n%s\n", err, line)
	}
	c.Printf("Generation %d of the secret is in %s, and its keys are in use from %s.\nBefore that, copy the "+
		"secret and the trust file to all other hosts and operators' machines, and restart the hosts one at a "+
		"time.\n", next.Number, c.SecretPath(), next.From.UTC().Format(time.RFC3339))
	return nil
}

// generation returns the last generation if its key was not introduced, else a new one.
func (cmd *secretRotateCmd) generation(s *installation.Session, known audit.Public) (keyring.Generation, error) {
	last := s.Keys.Generations()[len(s.Keys.Generations())-1]
	if last.Number > 1 && !known.Knows(PublicOf(last.SignSeed)) {
		return last, nil
	}
	from := s.Store.Now().Add(cmd.In).Truncate(time.Second)
	if from.Before(last.From) {
		return last, fmt.Errorf("--in: generation %d takes over at %s, and the next one cannot be earlier", last.Number,
			last.From.UTC().Format(time.RFC3339))
	}
	if err := keyring.AddGeneration(s.SecretPath(), from); err != nil {
		return last, err
	}
	ring, err := s.LoadInstallation()
	if err != nil {
		return last, err
	}
	return ring.Generations()[len(ring.Generations())-1], nil
}

// introduce announces a key of the secret for the audit log. If checkpoints have a key that is not derived from the
// secret, they keep it.
func introduce(ctx context.Context, s *installation.Session, key ed25519.PublicKey, from time.Time) error {
	signer := s.Store.Signer()
	uses := audit.Records
	if signs := signer.CheckpointKey(); slices.ContainsFunc(s.Keys.Generations(), func(g keyring.Generation) bool {
		return signs.Equal(PublicOf(g.SignSeed))
	}) {
		uses |= audit.Checkpoints
	}
	return announce(ctx, s.Store, key, uses, from)
}

// announce introduces a key of the audit log that the signer holds.
func announce(ctx context.Context, s *store.Store, key ed25519.PublicKey, uses audit.Use, from time.Time) error {
	number := len(s.Signer().Statements()) + 2
	statement, err := s.Signer().Introduce(key, uses, from)
	if err != nil {
		return err
	}
	return s.KeepKeyStatement(ctx, number, statement)
}

// addTrustLine adds a line to the trust file unless it is there.
func addTrustLine(file, line string) error {
	text, err := os.ReadFile(file)
	if err != nil || slices.Contains(strings.Split(string(text), "\n"), line) {
		return err
	}
	return keyring.ReplaceFile(file, []byte(strings.TrimRight(string(text), "\n")+"\n"+line+"\n"))
}
