package cli

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"assay/host/audit"
	"assay/host/auditlog"
	"assay/host/installation"
	"assay/host/internal/terminal"
)

type auditCheckpointCmd struct{ terminal.Output }

// Run brings the trees up to date, as a host does, and prints the newest checkpoints.
func (cmd *auditCheckpointCmd) Run(ctx context.Context, s *installation.Session) error {
	// There is no directory, because its files belong to the host.
	keeper := &auditlog.Keeper{Store: s.Store, Signer: s.Store.Signer(), Logger: installation.QuietLog(s.Terminal)}
	var damaged error
	if keeper.Signer.Ready(audit.Checkpoints) == nil { // otherwise hosts sign, and the newest are seconds old
		damaged = keeper.SignHeads(ctx)
	}
	trees, err := s.Store.Trees(ctx)
	if err != nil && len(trees) == 0 {
		return errors.Join(damaged, err)
	}
	var signed []string
	var published []audit.TreeHead
	for _, chain := range slices.Sorted(maps.Keys(trees)) {
		note, err := s.Store.NewestCheckpoint(ctx, chain)
		if err != nil {
			return err
		}
		if note != "" {
			signed, published = append(signed, note), append(published, trees[chain].TreeHead)
		}
	}
	var keys []string
	for _, tree := range published {
		keys = append(keys, keeper.Signer.TreeKeys(tree)...)
	}
	statements := keeper.Signer.Statements()
	return errors.Join(damaged, s.Show(map[string]any{"verifier_keys": keys, "checkpoints": signed,
		"key_statements": statements}, func() error {
		for i, text := range signed {
			s.Printf("%s\n", text)
			for _, key := range keeper.Signer.TreeKeys(published[i]) {
				fmt.Fprintf(s.Err, "verifier key: %s\n", key)
			}
		}
		for _, statement := range statements {
			fmt.Fprintf(s.Err, "\n%s", statement)
		}
		return nil
	}))
}
