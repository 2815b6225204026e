package cli

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"assay/host/access/keyring"
	"assay/host/installation"
	"assay/host/internal/terminal"
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

// generationReport is a generation for people.
type generationReport struct {
	Number int            `json:"number"`
	From   time.Time      `json:"from,omitzero"`
	State  string         `json:"state"`            // next, current, former
	Values map[string]int `json:"values,omitempty"` // encrypted under it, by table; not counted for the first
}

type secretListCmd struct{ terminal.Output }

// Run lists the generations.
func (cmd *secretListCmd) Run(ctx context.Context, s *installation.Session) error {
	var list []generationReport
	current := s.Keys.Current().Number
	for _, g := range s.Keys.Generations() {
		r := generationReport{Number: g.Number, From: g.From, State: "current"}
		if g.Number > 1 {
			var err error
			if r.Values, err = s.Store.SealedWith(ctx, g.Prefix); err != nil {
				return err
			}
		}
		if g.Number < current {
			r.State = "former"
		} else if g.Number > current {
			r.State = "next"
		}
		list = append(list, r)
	}
	header := []string{"GENERATION", "STATE", "FROM", "ENCRYPTED UNDER IT"}
	return terminal.List(s.Terminal, list, header, func(r generationReport) []string {
		if r.Number == 1 {
			return []string{"1", r.State, "the beginning", "not counted"}
		}
		return []string{fmt.Sprint(r.Number), r.State, r.From.UTC().Format(time.RFC3339), counts(r.Values)}
	})
}

// counts names tables and how many values each has.
func counts(values map[string]int) string {
	var parts []string
	for _, table := range slices.Sorted(maps.Keys(values)) {
		parts = append(parts, fmt.Sprintf("%s %d", table, values[table]))
	}
	return cmp.Or(strings.Join(parts, ", "), "nothing")
}

type secretResealCmd struct{}

// Run encrypts values again.
func (*secretResealCmd) Run(ctx context.Context, s *installation.Session) error {
	changed, err := s.Store.Reseal(ctx)
	if err == nil {
		s.Printf("%d values are now encrypted under generation %d.\n", changed, s.Keys.Current().Number)
	}
	return err
}

type secretRemoveCmd struct {
	Number int `arg:"" placeholder:"GENERATION" help:"Number of the generation, as 'assay secret list' shows it."`
}

// Run removes a generation, unless values are encrypted under it.
func (cmd *secretRemoveCmd) Run(ctx context.Context, s *installation.Session) error {
	for _, g := range s.Keys.Generations() {
		if g.Number != cmd.Number || g.Number == 1 {
			continue
		}
		if g.Number >= s.Keys.Current().Number {
			return fmt.Errorf("generation %d is in use, or will be", g.Number)
		}
		values, err := s.Store.SealedWith(ctx, g.Prefix)
		if err == nil && len(values) > 0 {
			err = fmt.Errorf("values are encrypted under generation %d: %s. `assay secret reseal` encrypts "+
				"again those that do not expire", g.Number, counts(values))
		}
		if err != nil {
			return err
		}
	}
	if err := keyring.RemoveGeneration(s.SecretPath(), cmd.Number); err != nil {
		return err
	}
	s.Printf("Generation %d is no longer in %s. Copy the file to the other hosts; they need no restart.\n",
		cmd.Number, s.SecretPath())
	return nil
}
