package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"time"

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
	Chain        int    `json:"chain"`
	Records      int64  `json:"records"`
	Erased       int64  `json:"erased"`        // of these, the ones whose content was erased
	Erasures     int64  `json:"erasures"`      // of these, the ones that say so
	Pruned       int64  `json:"pruned"`        // records before these, which were past their retention
	PrunedBefore string `json:"pruned_before"` // they were recorded before this day, UTC; empty: nothing was pruned
	Checkpoints  int    `json:"checkpoints"`   // that were met; those of what was pruned cannot be
	OK           bool   `json:"ok"`
	Error        string `json:"error,omitempty"`
}

func (r chainReport) String() string {
	text := fmt.Sprintf("Audit chain %d holds: %d records (%d erased by %d erasures), %d signed checkpoints met.",
		r.Chain, r.Records, r.Erased, r.Erasures, r.Checkpoints)
	if r.Pruned > 0 {
		text += fmt.Sprintf(" Before them, %d records of before %s were pruned, as a signed anchor says.", r.Pruned,
			r.PrunedBefore)
	}
	return text
}

// Run verifies. A chain that does not hold is an error, so that the exit code tells.
func (cmd *auditVerifyCmd) Run(ctx context.Context, cfg *Config, t *terminal) error {
	return withBackend(ctx, cfg, t, func(b *backend) error {
		files := cmd.Checkpoints
		if len(files) == 0 {
			var err error
			if files, err = checkpointFiles(cfg.path("checkpoints")); err != nil {
				return err
			}
		}
		// Checkpoints before heads: one that is signed meanwhile must not seem to be of a chain that was longer.
		checkpoints, err := readCheckpoints(files, newSigner(b.keys))
		if err != nil {
			return err
		}
		reports, broken, err := verifyTrail(ctx, b.store, newSigner(b.keys), checkpoints)
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

// checkpointFiles lists the files that a host has kept its checkpoints in.
func checkpointFiles(dir string) ([]string, error) { return filepath.Glob(filepath.Join(dir, "*.txt")) }

// readCheckpoints reads the signed heads to verify against.
func readCheckpoints(files []string, signer *audit.Signer) ([]audit.Head, error) {
	var heads []audit.Head
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		for _, signed := range audit.SplitCheckpoints(string(text)) {
			head, err := audit.OpenCheckpoint(signed, signer.VerifierKey())
			if err != nil {
				return nil, fmt.Errorf("reading %s: %w", file, err)
			}
			heads = append(heads, head)
		}
	}
	return heads, nil
}

// verifyTrail verifies every chain as of one moment. broken says which do not hold, err why it could not be found out.
func verifyTrail(ctx context.Context, s *store.Store, signer *audit.Signer,
	checkpoints []audit.Head) (reports []chainReport, broken, err error) {
	err = s.ReadAuditLog(ctx, func(ctx context.Context, trail store.AuditLog) error {
		heads, err := trail.Chains(ctx)
		if err != nil {
			return err
		}
		lineups, err := trail.LineupDigests(ctx)
		if err != nil {
			return err
		}
		reports = make([]chainReport, len(heads))
		for i, head := range heads {
			reports[i], err = verifyChain(ctx, trail, signer, head, checkpoints, lineups)
			var breaks *audit.BreakError
			if errors.As(err, &breaks) {
				reports[i].Error = err.Error()
				broken = errors.Join(broken, err)
			} else if err != nil {
				return err
			}
		}
		return nil
	})
	return reports, broken, err
}

// verifyChain walks one chain from its newest anchor, or its beginning, up to its head. lineups are the digests of
// those that are stored: what decided a check must be what came into force before it.
func verifyChain(ctx context.Context, trail store.AuditLog, signer *audit.Signer, head audit.Head,
	checkpoints []audit.Head, lineups map[int64][]byte) (chainReport, error) {
	report := chainReport{Chain: head.Chain}
	start := audit.Genesis(head.Chain)
	anchors, err := trail.Anchors(ctx, head.Chain, signer.VerifierKey())
	if err != nil {
		return report, err
	}
	if n := len(anchors); n > 0 {
		start, report.Pruned, report.PrunedBefore = anchors[n-1].Head, anchors[n-1].Seq,
			anchors[n-1].Before.Format(time.DateOnly)
	}
	checkpoints = slices.DeleteFunc(slices.Clone(checkpoints), func(c audit.Head) bool {
		return c.Chain != head.Chain ||
			c.Seq < start.Seq
	})
	report.Checkpoints = len(checkpoints)
	v := audit.NewVerifier(start, signer.PublicKey(), checkpoints)
	for row, err := range trail.Rows(ctx, head.Chain, start.Seq, math.MaxInt64) { // none may stand behind the head
		if err == nil {
			err = v.Add(row)
		}
		if r := row.Record; err == nil && r.Kind == audit.Lineup && !bytes.Equal(r.Digest, lineups[r.Revision]) {
			err = &audit.BreakError{Chain: head.Chain, Seq: row.Seq,
				Reason: fmt.Sprintf("lineup revision %d is stored otherwise than it came into force", r.Revision)}
		}
		if err != nil {
			return report, err
		}
	}
	report.Records, report.Erased, report.Erasures = v.Head.Seq-start.Seq, v.Erased, v.Erasures
	err = v.Close(head)
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
