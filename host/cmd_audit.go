package main

import (
	"context"
	"errors"
	"fmt"

	"assay/host/auditlog"
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
		reports, broken, err := auditlog.Verify(ctx, b.store, signer, checkpoints)
		if err != nil {
			return err
		}
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
