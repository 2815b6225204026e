package server

import (
	"context"
	"time"

	"assay/host/audit"
	"assay/host/auditlog"
	"assay/host/telemetry"
)

// witnesses submits checkpoints to the witnesses of the audit log.
type witnesses struct{ *auditlog.Submitter }

var (
	_ collector = witnesses{}
	_ runner    = witnesses{}
	_ fallible  = witnesses{}
)

func openWitnesses(_ context.Context, h *host) (part, error) {
	all, err := h.cfg.Witnesses()
	if err != nil {
		return nil, err
	}
	h.witnesses = auditlog.NewSubmitter(h.store, h.store.Signer(), all, h.log)
	return witnesses{h.witnesses}, nil
}

// Collect implements collector.
func (w witnesses) Collect(m *telemetry.Metrics) { m.WatchWitnesses(w.Names(), w.Waiting) }

// Problems implements fallible.
func (w witnesses) Problems() []problem {
	return append(
		problemsOf(w.Contradicted(), "Change nothing in the database: it is evidence. Find out whether a backup was "+
			"restored, a standby that lagged took over, or records were rewritten. `assay audit verify` compares them "+
			"with the checkpoints of this host."),
		problemsOf(w.Delayed(), "Checks continue, and the next checkpoint is submitted. Ask the witness's operator, or "+
			"remove it from `ASSAY_WITNESS`.")...)
}

// keeper signs, verifies and prunes the audit log.
type keeper struct {
	*auditlog.Keeper
	contradicted func() []string // by witnesses
}

var (
	_ collector = keeper{}
	_ runner    = keeper{}
	_ worker    = keeper{}
	_ fallible  = keeper{}
)

func openKeeper(_ context.Context, h *host) (part, error) {
	h.keeper = &auditlog.Keeper{Store: h.store, Signer: h.store.Signer(), Trust: h.lineup.trusted.Trust,
		Dir: h.cfg.CheckpointDir(), Logger: h.log, Covered: h.metrics.CheckpointStored}
	return keeper{h.keeper, h.witnesses.Contradicted}, nil
}

// Collect implements collector.
func (k keeper) Collect(m *telemetry.Metrics) {
	m.WatchAudit(func() int { return len(k.Status().Problems) + len(k.contradicted()) })
}

// Jobs implements worker.
func (k keeper) Jobs() jobs {
	return jobs{shortJobs: {
		{Name: "sign checkpoints", Every: jobInterval, Run: k.SignHeads, AtStop: true},
	}, longJobs: {
		{Name: "tidy checkpoints", Every: time.Hour, Limit: longJobLimit, Run: k.Tidy},
		{Name: "prune the audit log", Every: jobInterval, Limit: longJobLimit, Run: k.Prune},
	}}
}

// Problems implements fallible.
func (k keeper) Problems() []problem {
	return problemsOf(KeyElsewhere(k.Signer), "Copy the secret and the trust file from the host on which `assay secret "+
		"rotate` ran, and restart this host. Until then it signs nothing, and cannot read values that the others encrypt.")
}

// KeyElsewhere returns a sentence if the host lacks the keys in use.
func KeyElsewhere(signer *audit.Signer) []string {
	if signer.Ready(audit.Checkpoints|audit.Records) == nil {
		return nil
	}
	return []string{"the keys that sign the audit log were replaced, and this host does not have the new ones"}
}
