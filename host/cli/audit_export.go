package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"assay/host/audit"
	"assay/host/auditlog"
	"assay/host/installation"
	"assay/host/internal/terminal"
	"assay/host/store"
)

type auditExportCmd struct {
	File      string `arg:"" help:"File to write; - is standard output."`
	PublicKey string `type:"existingfile" placeholder:"FILE" help:"${audit_public_key}"`
}

// Run exports the audit log.
func (cmd *auditExportCmd) Run(ctx context.Context, c *installation.Command) error {
	if cmd.PublicKey != "" {
		key, err := readPublicKey(cmd.PublicKey)
		if err != nil {
			return err
		}
		return readAuditLog(ctx, c.Config, func(ctx context.Context, log store.AuditLog, now time.Time) error {
			return cmd.export(ctx, log, key, now, c.Terminal)
		})
	}
	s, err := c.Open(ctx)
	if err != nil {
		return err
	}
	return s.Store.ReadAuditLog(ctx, func(ctx context.Context, log store.AuditLog) error {
		return cmd.export(ctx, log, s.Store.Signer().Public, s.Store.Now(), c.Terminal)
	})
}

func (cmd *auditExportCmd) export(ctx context.Context, log store.AuditLog, key audit.Public, now time.Time,
	t *terminal.Terminal) error {
	write := func(to io.Writer) error {
		records, err := auditlog.WriteExport(ctx, log, key, now, to, func(n int64) {
			fmt.Fprintf(t.Err, "%d records are exported.\n", n)
		})
		if err == nil {
			fmt.Fprintf(t.Err, "%d records are exported. Verify them with `assay audit verify --offline`.\n", records)
		}
		return err
	}
	if cmd.File == "-" {
		return write(t.Out)
	}
	if info, err := os.Stat(cmd.File); err == nil && !info.Mode().IsRegular() { // such as a pipe
		f, err := os.OpenFile(cmd.File, os.O_WRONLY, 0)
		if err != nil {
			return err
		}
		return errors.Join(write(f), f.Close())
	}
	if target, err := filepath.EvalSymlinks(cmd.File); err == nil {
		cmd.File = target
	}
	// The file with the given name must always be complete.
	f, err := os.CreateTemp(filepath.Dir(cmd.File), filepath.Base(cmd.File)+".*.new")
	if err != nil {
		return err
	}
	defer os.Remove(f.Name()) // unless it is renamed
	if err := errors.Join(write(f), f.Sync(), f.Close()); err != nil {
		return err
	}
	return os.Rename(f.Name(), cmd.File)
}
