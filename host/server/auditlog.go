package server

import (
	"context"
	"time"

	"assay/host/audit"
	"assay/host/auditlog"
	"assay/host/telemetry"
)

// openWitnesses opens the submitter of checkpoints to the witnesses of the audit log.
func openWitnesses(_ context.Context, h *host) (part, error) {
	all, err := h.cfg.Witnesses()
	if err != nil {
		return part{}, err
	}
	w := auditlog.NewSubmitter(h.store, h.store.Signer(), all, h.log)
	h.witnesses = w
	return part{
		Collect: func(m *telemetry.Metrics) { m.WatchWitnesses(w.Names(), w.Waiting) },
		Run:     []func(context.Context){w.Run},
		Problems: []problems{
			{w.Contradicted, "Change nothing in the database: it is evidence. Find out whether a backup was " +
				"restored, a standby that lagged took over, or records were rewritten. `assay audit verify` compares " +
				"them with the checkpoints of this host."},
			{w.Delayed, "Checks continue, and the next checkpoint is submitted. Ask the witness's operator, or " +
				"remove it from `ASSAY_WITNESS`."},
		},
	}, nil
}

// openKeeper opens the keeper, which signs, verifies and prunes the audit log.
func openKeeper(_ context.Context, h *host) (part, error) {
	signer := h.store.Signer()
	k := &auditlog.Keeper{Store: h.store, Signer: signer, Trust: h.trusted.Trust, Dir: h.cfg.CheckpointDir(),
		Logger: h.log, Covered: h.metrics.CheckpointStored}
	h.keeper = k
	return part{
		Collect: func(m *telemetry.Metrics) {
			m.WatchAudit(func() int { return len(k.Status().Problems) + len(h.witnesses.Contradicted()) })
		},
		Run: []func(context.Context){k.Run},
		Jobs: jobs{shortJobs: {
			{Name: "sign checkpoints", Every: jobInterval, Run: k.SignHeads, AtStop: true},
		}, longJobs: {
			{Name: "tidy checkpoints", Every: time.Hour, Limit: longJobLimit, Run: k.Tidy},
			{Name: "prune the audit log", Every: jobInterval, Limit: longJobLimit, Run: k.Prune, Shared: true,
				Elsewhere: k.PrunedElsewhere},
		}},
		Problems: []problems{{func() []string { return KeyElsewhere(signer) },
			"Copy the secret and the trust file from the host on which `assay secret rotate` ran, and restart this " +
				"host. Until then it signs nothing, cannot read values that the others encrypt, and leaves webhook " +
				"events, the reputation graph, lists, exports and erasures to them."}},
	}, nil
}

// KeyElsewhere returns a sentence if the host lacks the keys in use.
func KeyElsewhere(signer *audit.Signer) []string {
	if signer.Ready(audit.Checkpoints|audit.Records) == nil {
		return nil
	}
	return []string{"the keys that sign the audit log were replaced, and this host does not have the new ones"}
}
