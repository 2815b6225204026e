package cli

import (
	"context"
	"crypto/ed25519"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"time"

	"assay/host/access/keyring"
	"assay/host/audit"
	"assay/host/installation"
	"assay/host/internal/terminal"
	"assay/registry/activation"
)

type secretCmd struct {
	Rotate secretRotateCmd `cmd:"" help:"${secret_rotate_cmd}"`
	List   secretListCmd   `cmd:"" help:"List the generations of the secret and the values encrypted under them."`
	Reseal secretResealCmd `cmd:"" help:"${secret_reseal_cmd}"`
	Remove secretRemoveCmd `cmd:"" help:"Remove a generation of the secret that no value is encrypted under."`

	Delegate secretDelegateCmd `cmd:"" help:"${secret_delegate_cmd}"`
	Key      secretKeyCmd      `cmd:"" help:"Create a key that signs checkpoints apart from the hosts."`
	Sign     secretSignCmd     `cmd:"" help:"${secret_sign_cmd}"`
}

type secretRotateCmd struct {
	In time.Duration `default:"24h" placeholder:"TIME" help:"${secret_in}"`
}

// Run adds a generation to the secret file, introduces its key to the audit log and lists its host's key in the trust
// file. It continues with one that it could not introduce before: the file is written first, so that no lost key is
// announced.
func (cmd *secretRotateCmd) Run(ctx context.Context, cfg *installation.Config, t *terminal.Terminal) error {
	if cmd.In < 0 {
		return errors.New("--in: the time must not be in the past")
	}
	return installation.Use(ctx, cfg, t, func(b *installation.Backend) error {
		signer := b.Store.Signer()
		if err := signer.CanIntroduce(); err != nil {
			return err
		}
		next, err := cmd.generation(cfg, b, signer.Public)
		if err != nil {
			return err
		}
		if err := introduce(ctx, b, signer.Hold(next.SignSeed), next.From); err != nil {
			return err
		}
		host, err := activation.NewKey(installation.HostKeyName, next.Activation)
		if err != nil {
			return err
		}
		line := fmt.Sprintf("%s %s", activation.Host, host.Verifier)
		if err := addLine(cfg.TrustPath(), line); err != nil {
			fmt.Fprintf(t.Err, "The trust file was not changed (%v). Add this line to it:\n%s\n", err, line)
		}
		t.Printf("Generation %d of the secret is in %s, and its keys are in use from %s.\nBefore that, copy the "+
			"secret and the trust file to all other hosts and operators' machines, and restart the hosts one at a "+
			"time.\n",
			next.Number, cfg.SecretPath(), next.From.UTC().Format(time.RFC3339))
		return nil
	})
}

// generation returns the last generation if its key was not introduced, else a new one.
func (cmd *secretRotateCmd) generation(cfg *installation.Config, b *installation.Backend, known audit.Public) (keyring.Generation, error) {
	last := b.Keys.Generations()[len(b.Keys.Generations())-1]
	if last.Number > 1 && !known.Knows(PublicOf(last.SignSeed)) {
		return last, nil
	}
	from := b.Store.Now().Add(cmd.In).Truncate(time.Second)
	if err := keyring.AddGeneration(cfg.SecretPath(), from); err != nil {
		return last, err
	}
	ring, err := cfg.LoadInstallation()
	if err != nil {
		return last, err
	}
	return ring.Generations()[len(ring.Generations())-1], nil
}

// introduce announces a key of the secret for the audit log. If checkpoints have a key that is not derived from the
// secret, they keep it.
func introduce(ctx context.Context, b *installation.Backend, key ed25519.PublicKey, from time.Time) error {
	signer := b.Store.Signer()
	uses := audit.Records
	if signs := signer.CheckpointKey(); slices.ContainsFunc(b.Keys.Generations(), func(g keyring.Generation) bool {
		return signs.Equal(PublicOf(g.SignSeed))
	}) {
		uses |= audit.Checkpoints
	}
	return announce(ctx, b, key, uses, from)
}

// announce introduces a key of the audit log that the signer holds.
func announce(ctx context.Context, b *installation.Backend, key ed25519.PublicKey, uses audit.Use, from time.Time) error {
	number := len(b.Store.Signer().Statements()) + 2
	statement, err := b.Store.Signer().Introduce(key, uses, from)
	if err != nil {
		return err
	}
	return b.Store.KeepKeyStatement(ctx, number, statement)
}

// addLine adds a line to a file, unless it has it.
func addLine(file, line string) error {
	text, err := os.ReadFile(file)
	if err != nil || slices.Contains(strings.Split(string(text), "\n"), line) {
		return err
	}
	return keyring.ReplaceFile(file, []byte(strings.TrimRight(string(text), "\n")+"\n"+line+"\n"))
}

// generationReport is a generation for people.
type generationReport struct {
	Number int            `json:"number"`
	From   time.Time      `json:"from,omitzero"`
	State  string         `json:"state"`            // next, current, former
	Values map[string]int `json:"values,omitempty"` // encrypted under it, by table; not counted for the first
}

type secretListCmd struct {
	JSON bool `help:"Print JSON."`
}

// Run lists the generations.
func (cmd *secretListCmd) Run(ctx context.Context, cfg *installation.Config, t *terminal.Terminal) error {
	return installation.Use(ctx, cfg, t, func(b *installation.Backend) error {
		var list []generationReport
		var rows [][]string
		for _, g := range b.Keys.Generations() {
			current := b.Keys.Current().Number
			r := generationReport{Number: g.Number, From: g.From, State: "current"}
			from, values := "the beginning", "not counted"
			if g.Number > 1 {
				var err error
				if r.Values, err = b.Store.SealedWith(ctx, g.Prefix); err != nil {
					return err
				}
				from, values = g.From.UTC().Format(time.RFC3339), counts(r.Values)
			}
			if g.Number < current {
				r.State = "former"
			} else if g.Number > current {
				r.State = "next"
			}
			list = append(list, r)
			rows = append(rows, []string{fmt.Sprint(g.Number), r.State, from, values})
		}
		if cmd.JSON {
			return t.JSON(list)
		}
		return t.Table([]string{"GENERATION", "STATE", "FROM", "ENCRYPTED UNDER IT"}, rows)
	})
}

// counts names tables and how many values each has.
func counts(values map[string]int) string {
	var parts []string
	for _, table := range slices.Sorted(maps.Keys(values)) {
		parts = append(parts, fmt.Sprintf("%s %d", table, values[table]))
	}
	if len(parts) == 0 {
		return "nothing"
	}
	return strings.Join(parts, ", ")
}

type secretResealCmd struct{}

// Run encrypts values again.
func (*secretResealCmd) Run(ctx context.Context, cfg *installation.Config, t *terminal.Terminal) error {
	return installation.Use(ctx, cfg, t, func(b *installation.Backend) error {
		changed, err := b.Store.Reseal(ctx)
		if err == nil {
			t.Printf("%d values are now encrypted under generation %d.\n", changed, b.Keys.Current().Number)
		}
		return err
	})
}

type secretRemoveCmd struct {
	Number int `arg:"" placeholder:"GENERATION" help:"Number of the generation, as 'assay secret list' shows it."`
}

// Run removes a generation, unless values are encrypted under it.
func (cmd *secretRemoveCmd) Run(ctx context.Context, cfg *installation.Config, t *terminal.Terminal) error {
	return installation.Use(ctx, cfg, t, func(b *installation.Backend) error {
		for _, g := range b.Keys.Generations() {
			if g.Number != cmd.Number || g.Number == 1 {
				continue
			}
			if g.Number >= b.Keys.Current().Number {
				return fmt.Errorf("generation %d is in use, or will be", g.Number)
			}
			values, err := b.Store.SealedWith(ctx, g.Prefix)
			if err == nil && len(values) > 0 {
				err = fmt.Errorf("values are encrypted under generation %d: %s. `assay secret reseal` encrypts "+
					"again those that do not expire", g.Number, counts(values))
			}
			if err != nil {
				return err
			}
		}
		if err := keyring.RemoveGeneration(cfg.SecretPath(), cmd.Number); err != nil {
			return err
		}
		t.Printf("Generation %d is no longer in %s. Copy the file to the other hosts; they need no restart.\n",
			cmd.Number, cfg.SecretPath())
		return nil
	})
}
