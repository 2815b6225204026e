package cli

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"time"

	"assay/host/audit"
	"assay/host/audit/witness"
	"assay/host/auditlog"
	"assay/host/installation"
	"assay/host/internal/terminal"
	"assay/host/store"
)

type auditVerifyCmd struct {
	Checkpoints []string `type:"existingfile" placeholder:"FILE" help:"${audit_checkpoints}"`
	PublicKey   string   `type:"existingfile" placeholder:"FILE" help:"${audit_public_key}"`
	Offline     string   `type:"existingfile" placeholder:"EXPORT" help:"${audit_offline}"`
	WitnessKey  []string `placeholder:"KEY" help:"${audit_witness}"`
	terminal.Output
}

// Run verifies the audit log. It returns an error if a chain is not valid, so that the exit code is 1.
func (cmd *auditVerifyCmd) Run(ctx context.Context, c *installation.Command) error {
	if cmd.PublicKey != "" {
		return cmd.verifyPublic(ctx, c)
	}
	if cmd.Offline != "" {
		return errors.New("--offline requires --public-key: an export must not vouch for itself")
	}
	s, err := c.Open(ctx)
	if err != nil {
		return err
	}
	files := cmd.Checkpoints
	if len(files) == 0 {
		if files, err = c.CheckpointDir().Files(); err != nil {
			return err
		}
	}
	key := s.Store.Signer().Public
	checkpoints, err := cmd.readCheckpoints(files, key)
	if err != nil {
		return err
	}
	reports, broken, err := VerifyAudit(ctx, s.Backend, s.Config, key, checkpoints)
	if err != nil {
		return err
	}
	_, err = os.Stat(c.Path("host"))
	switch {
	case len(cmd.Checkpoints) > 0:
	case errors.Is(err, fs.ErrNotExist):
		fmt.Fprintf(c.Err, "No host has run in %s: checkpoints that are missing there are not looked for.\n", c.DataDir)
	default:
		gone, err := c.CheckpointDir().RequireKept(ctx, s.Store, key)
		if err != nil {
			return err
		}
		broken = errors.Join(broken, gone)
	}
	err = s.Store.ReadAuditLog(ctx, func(ctx context.Context, log store.AuditLog) error {
		missing, err := cmd.requireCosigned(ctx, log, key, reports, s.Store.Now())
		broken = errors.Join(broken, missing)
		return err
	})
	if err != nil {
		return err
	}
	return showReports(c.Terminal, reports, broken)
}

// VerifyAudit verifies everything that an installation can verify. The results are those of auditlog.Verify.
func VerifyAudit(
	ctx context.Context, b *installation.Backend, cfg *installation.Config, key audit.Public,
	checkpoints *auditlog.Checkpoints,
) (reports []auditlog.Report, broken, err error) {
	a, err := b.Verifying(ctx, cfg)
	if err != nil {
		return nil, nil, err
	}
	if reports, broken, err = auditlog.Verify(ctx, b.Store, key, a.Trust, checkpoints); err != nil {
		return nil, nil, err
	}
	inForce, wrong := a.Current(ctx)
	altered, err := auditlog.VerifyPlugins(ctx, b.Store, a.Trust, inForce.Document)
	return reports, errors.Join(broken, auditlog.RequireSigned(reports, b.Store.Now()), wrong, altered), err
}

// readCheckpoints reads files of checkpoints. Files that the command line names must have checkpoints and no damage.
func (cmd *auditVerifyCmd) readCheckpoints(files []string, key audit.Public) (
	*auditlog.Checkpoints, error) {
	checkpoints := auditlog.ReadCheckpoints(files, key)
	switch {
	case len(cmd.Checkpoints) == 0: // RequireKept reports the damage to the others
	case len(checkpoints.Damaged) > 0:
		return nil, fmt.Errorf("reading checkpoints: %s", checkpoints.Damaged[0])
	case len(checkpoints.Empty) > 0:
		return nil, fmt.Errorf("--checkpoints: %s has none", checkpoints.Empty[0])
	}
	return checkpoints, nil
}

// requireCosigned returns an error for records that a witness from the command line should have cosigned but did not.
func (cmd *auditVerifyCmd) requireCosigned(ctx context.Context, log auditlog.Log, key audit.Public,
	reports []auditlog.Report, now time.Time) (missing, err error) {
	var witnesses []witness.Verifier
	for _, text := range cmd.WitnessKey {
		w, err := witness.ParseVerifier(text)
		if err != nil {
			return nil, fmt.Errorf("--witness-key: %w", err)
		}
		witnesses = append(witnesses, w)
	}
	return auditlog.RequireCosigned(ctx, log, key, witnesses, reports, now)
}

// showReports prints the reports of valid chains, and returns broken.
func showReports(t *terminal.Terminal, reports []auditlog.Report, broken error) error {
	return errors.Join(broken, t.Show(reports, func() error {
		for _, r := range reports {
			if r.OK {
				t.Printf("%s\n", r)
			}
		}
		return nil
	}))
}

// verifyPublic verifies an export, or the database with a role that may only read. It needs no installation.
func (cmd *auditVerifyCmd) verifyPublic(ctx context.Context, c *installation.Command) error {
	key, err := readPublicKey(cmd.PublicKey)
	if err != nil {
		return err
	}
	if key, err = cmd.follow(ctx, c.Config, key); err != nil {
		return err
	}
	checkpoints, err := cmd.readCheckpoints(cmd.Checkpoints, key)
	if err != nil {
		return err
	}
	var reports []auditlog.Report
	var broken error
	verify := func(ctx context.Context, log auditlog.Log, now time.Time) (err error) {
		if reports, broken, err = auditlog.VerifyPublic(ctx, log, key, checkpoints, now); err != nil {
			return err
		}
		missing, err := cmd.requireCosigned(ctx, log, key, reports, now)
		broken = errors.Join(broken, missing)
		return err
	}
	if err := cmd.read(ctx, c.Config, verify); err != nil {
		return err
	}
	fmt.Fprintln(c.Err, "Not verified without the installation: the signatures of activations and plugins, and the "+
		"MACs of overrides.")
	return showReports(c.Terminal, reports, broken)
}

// follow returns the key with the later keys of the log, because these may have signed the checkpoints.
func (cmd *auditVerifyCmd) follow(ctx context.Context, cfg *installation.Config, key audit.Public) (
	audit.Public, error) {
	err := cmd.read(ctx, cfg, func(ctx context.Context, log auditlog.Log, _ time.Time) error {
		statements, err := log.KeyStatements(ctx)
		if err == nil {
			key, err = key.With(statements)
		}
		return err
	})
	return key, err
}

// read calls fn with the export that the command line names, or with a snapshot of the database.
func (cmd *auditVerifyCmd) read(
	ctx context.Context, cfg *installation.Config, fn func(context.Context, auditlog.Log, time.Time) error,
) error {
	if cmd.Offline == "" {
		return readAuditLog(ctx, cfg, func(ctx context.Context, log store.AuditLog, now time.Time) error {
			return fn(ctx, log, now)
		})
	}
	f, err := os.Open(cmd.Offline)
	if err != nil {
		return err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return err
	}
	export, err := auditlog.OpenExport(f, info.Size())
	if err != nil {
		return fmt.Errorf("%s: %w", cmd.Offline, err)
	}
	return fn(ctx, export, time.Now())
}
