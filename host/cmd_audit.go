package main

import (
	"context"
	"errors"
	"fmt"

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
		checkpoints, err := auditlog.ReadCheckpoints(files, signer)
		if err != nil {
			return err
		}
		a, err := b.verifying(ctx, cfg)
		if err != nil {
			return err
		}
		reports, broken, err := auditlog.Verify(ctx, b.store, signer, a.Trust, checkpoints)
		if err != nil {
			return err
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

func (cmd *auditCheckpointCmd) Run(ctx context.Context, cfg *Config, t *terminal) error {
	return withBackend(ctx, cfg, t, func(b *backend) error {
		heads, damaged := b.store.Heads(ctx)
		if len(heads) == 0 {
			return damaged
		}
		signer := auditlog.NewSigner(b.keys.SignSeed)
		var signed []string
		for _, head := range heads {
			text, err := signer.Checkpoint(head)
			if err != nil {
				return err
			}
			signed = append(signed, text)
		}
		if cmd.JSON {
			return errors.Join(damaged, t.json(map[string]any{"verifier_key": signer.VerifierKey(),
				"checkpoints": signed}))
		}
		for _, text := range signed {
			t.printf("%s\n", text)
		}
		fmt.Fprintf(t.err, "verifier key: %s\n", signer.VerifierKey())
		return damaged
	})
}
