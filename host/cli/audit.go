package cli

import (
	"context"
	"errors"
	"os"
	"time"

	"assay/host/audit"
	"assay/host/installation"
	"assay/host/store"
	"assay/registry/fault"
)

type auditCmd struct {
	Verify     auditVerifyCmd     `cmd:"" help:"Verify all audit chains, also against signed checkpoints."`
	Checkpoint auditCheckpointCmd `cmd:"" help:"Print signed checkpoints of the audit chains, to be stored elsewhere."`
	Export     auditExportCmd     `cmd:"" help:"${audit_export_cmd}"`
	Receipt    auditReceiptCmd    `cmd:"" name:"verify-receipt" help:"${audit_receipt_cmd}"`
	AcceptLoss auditLossCmd       `cmd:"" help:"${audit_loss_cmd}"`
}

func readPublicKey(file string) (audit.Public, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return audit.Public{}, err
	}
	key, err := audit.ParseKeys(string(text))
	return key, fault.Wrap(err, "%s", file)
}

// readAuditLog calls fn with a snapshot of the audit log. It needs the database's address and nothing else of the
// installation.
func readAuditLog(
	ctx context.Context, c *installation.Config, fn func(context.Context, store.AuditLog, time.Time) error,
) error {
	if c.DatabaseURL == "" {
		return errors.New("--public-key requires ASSAY_DATABASE_URL, or an export with --offline")
	}
	reader, err := store.OpenAuditReader(ctx, c.DatabaseURL)
	if err != nil {
		return err
	}
	return errors.Join(reader.Read(ctx, fn), reader.Close())
}
