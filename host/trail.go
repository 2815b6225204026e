package main

import (
	"context"
	"crypto/ed25519"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"assay/host/audit"
	"assay/host/store"
)

type auditCmd struct {
	Verify     auditVerifyCmd     `cmd:"" help:"Verify the whole audit chain against itself and against signed checkpoints."`
	Checkpoint auditCheckpointCmd `cmd:"" help:"Sign where the chain stands, to be kept elsewhere."`
}

type auditVerifyCmd struct {
	Checkpoints []string `type:"existingfile" placeholder:"FILE" help:"Signed checkpoints to verify against (default: those in the data directory)."`
	JSON        bool     `help:"Print JSON."`
}

// chainReport is what `assay audit verify --json` says of a chain.
type chainReport struct {
	Chain       int    `json:"chain"`
	Records     int64  `json:"records"`
	Erased      int64  `json:"erased"`   // of these, the ones whose content was erased
	Erasures    int64  `json:"erasures"` // of these, the ones that say so
	Checkpoints int    `json:"checkpoints"`
	OK          bool   `json:"ok"`
	Error       string `json:"error,omitempty"`
}

// Run verifies. A chain that does not hold is an error, so that the exit code tells.
func (cmd *auditVerifyCmd) Run(ctx context.Context, cfg *Config, t *terminal) error {
	return withBackend(ctx, cfg, t, func(b *backend) error {
		// Checkpoints before heads: one that is signed meanwhile must not seem to be of a chain that was longer.
		checkpoints, err := cmd.checkpoints(cfg, b)
		if err != nil {
			return err
		}
		var reports []chainReport
		var broken []error
		err = b.store.ReadTrail(ctx, func(ctx context.Context, trail store.Trail) error {
			heads, err := trail.Heads(ctx)
			if err != nil {
				return err
			}
			reports = make([]chainReport, len(heads))
			for i, head := range heads {
				reports[i], err = verifyChain(ctx, trail, newSigner(b.keys).PublicKey(), head, checkpoints)
				var breaks *audit.BreakError
				if errors.As(err, &breaks) {
					reports[i].Error = err.Error()
					broken = append(broken, err)
				} else if err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			return err
		}
		if cmd.JSON {
			return errors.Join(append(broken, t.json(reports))...)
		}
		for _, r := range reports {
			if r.OK {
				t.printf("Audit chain %d holds: %d records (%d erased by %d erasures), %d signed checkpoints met.\n", r.Chain, r.Records, r.Erased, r.Erasures, r.Checkpoints)
			}
		}
		return errors.Join(broken...)
	})
}

// checkpoints reads the signed heads to verify against.
func (cmd *auditVerifyCmd) checkpoints(cfg *Config, b *backend) ([]audit.Head, error) {
	files := cmd.Checkpoints
	if len(files) == 0 {
		var err error
		if files, err = filepath.Glob(cfg.path("checkpoints", "*.txt")); err != nil {
			return nil, err
		}
	}
	var heads []audit.Head
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		for _, signed := range audit.SplitCheckpoints(string(text)) {
			head, err := audit.OpenCheckpoint(signed, newSigner(b.keys).VerifierKey())
			if err != nil {
				return nil, fmt.Errorf("reading %s: %w", file, err)
			}
			heads = append(heads, head)
		}
	}
	return heads, nil
}

// verifyChain walks one chain up to its head.
func verifyChain(ctx context.Context, trail store.Trail, key ed25519.PublicKey, head audit.Head, checkpoints []audit.Head) (chainReport, error) {
	checkpoints = slices.DeleteFunc(slices.Clone(checkpoints), func(c audit.Head) bool { return c.Chain != head.Chain })
	v := audit.NewVerifier(audit.Genesis(head.Chain), key, checkpoints)
	report := chainReport{Chain: head.Chain, Checkpoints: len(checkpoints)}
	for row, err := range trail.Rows(ctx, head.Chain, 0, head.Seq) {
		if err == nil {
			err = v.Add(row)
		}
		if err != nil {
			return report, err
		}
	}
	report.Records, report.Erased, report.Erasures = v.Head.Seq, v.Erased, v.Erasures
	err := v.Close(head)
	report.OK = err == nil
	return report, err
}

type auditCheckpointCmd struct {
	JSON bool `help:"Print JSON."`
}

func (cmd *auditCheckpointCmd) Run(ctx context.Context, cfg *Config, t *terminal) error {
	return withBackend(ctx, cfg, t, func(b *backend) error {
		heads, err := b.store.Heads(ctx)
		if err != nil {
			return err
		}
		signer := newSigner(b.keys)
		var signed []string
		for _, head := range heads {
			text, err := signer.Checkpoint(head)
			if err != nil {
				return err
			}
			signed = append(signed, text)
		}
		if cmd.JSON {
			return t.json(map[string]any{"verifier_key": signer.VerifierKey(), "checkpoints": signed})
		}
		for _, text := range signed {
			t.printf("%s\n", text)
		}
		fmt.Fprintf(t.err, "verifier key: %s\n", signer.VerifierKey())
		return nil
	})
}
