package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"assay/host/auditlog"
	"assay/host/lineup"
)

type auditCmd struct {
	Verify     auditVerifyCmd     `cmd:"" help:"Verify all audit chains, also against signed checkpoints."`
	Checkpoint auditCheckpointCmd `cmd:"" help:"Print signed checkpoints of the audit chains, to be stored elsewhere."`
}

type auditVerifyCmd struct {
	Checkpoints []string `type:"existingfile" placeholder:"FILE" help:"${audit_checkpoints}"`
	JSON        bool     `help:"Print JSON."`
}

// Run verifies the audit log. It returns an error if a chain is not valid, so that the exit code is 1.
func (cmd *auditVerifyCmd) Run(ctx context.Context, cfg *Config, t *terminal) error {
	return withBackend(ctx, cfg, t, func(b *backend) error {
		files := cmd.Checkpoints
		if len(files) == 0 {
			var err error
			if files, err = cfg.checkpointDir().Files(); err != nil {
				return err
			}
		}
		signer := auditlog.NewSigner(b.keys.SignSeed)
		checkpoints := auditlog.ReadCheckpoints(files, signer)
		for _, damage := range checkpoints.Damaged {
			if len(cmd.Checkpoints) > 0 {
				return fmt.Errorf("reading checkpoints: %s", damage)
			}
			fmt.Fprintf(t.err, "%s. Verification goes on with the others.\n", damage)
		}
		a, err := b.verifying(ctx, cfg)
		if err != nil {
			return err
		}
		reports, broken, err := auditlog.Verify(ctx, b.store, signer, a.Trust, checkpoints)
		if err != nil {
			return err
		}
		for i, r := range reports {
			if err := r.Unsigned(b.store.Now()); err != nil && r.OK {
				reports[i].OK, reports[i].Error = false, err.Error()
				broken = errors.Join(broken, err)
			}
		}
		inForce, err := a.inForce(ctx)
		broken = errors.Join(broken, err)
		altered, err := auditlog.VerifyPlugins(ctx, b.store, inForce.Document)
		if err != nil {
			return err
		}
		broken = errors.Join(broken, altered)
		if cmd.JSON {
			return errors.Join(broken, t.json(reports))
		}
		for _, r := range reports {
			if r.OK {
				t.printf("%s\n", r)
			}
		}
		return broken
	})
}

// verifying returns what the host of this data directory trusts. It changes nothing.
func (b *backend) verifying(ctx context.Context, cfg *Config) (*authority, error) {
	memory, err := lineup.RecallMemory(cfg.memoryFile())
	if err != nil {
		return nil, err
	}
	return b.openAuthority(ctx, cfg, memory, false)
}

type auditCheckpointCmd struct {
	JSON bool `help:"Print JSON."`
}

// Run brings the trees up to date, as a host does, and prints the newest checkpoints.
func (cmd *auditCheckpointCmd) Run(ctx context.Context, cfg *Config, t *terminal) error {
	return withBackend(ctx, cfg, t, func(b *backend) error {
		// Without a directory, whose files belong to the host.
		keeper := &auditlog.Keeper{Store: b.store, Signer: auditlog.NewSigner(b.keys.SignSeed), Logger: quietLog(t)}
		damaged := keeper.SignHeads(ctx)
		trees, err := b.store.Trees(ctx)
		if err != nil && len(trees) == 0 {
			return errors.Join(damaged, err)
		}
		var signed, keys []string
		for _, chain := range slices.Sorted(maps.Keys(trees)) {
			note, err := b.store.NewestCheckpoint(ctx, chain)
			if err != nil {
				return err
			}
			if note != "" {
				signed, keys = append(signed, note), append(keys, keeper.Signer.TreeKey(chain))
			}
		}
		if cmd.JSON {
			return errors.Join(damaged, t.json(map[string]any{"verifier_keys": keys, "checkpoints": signed}))
		}
		for i, text := range signed {
			t.printf("%s\n", text)
			fmt.Fprintf(t.err, "verifier key: %s\n", keys[i])
		}
		return damaged
	})
}
