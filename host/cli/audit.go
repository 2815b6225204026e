package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"time"

	"assay/host/audit"
	"assay/host/audit/witness"
	"assay/host/auditlog"
	"assay/host/installation"
	"assay/host/internal/terminal"
	"assay/host/store"
)

type auditCmd struct {
	Verify     auditVerifyCmd     `cmd:"" help:"Verify all audit chains, also against signed checkpoints."`
	Checkpoint auditCheckpointCmd `cmd:"" help:"Print signed checkpoints of the audit chains, to be stored elsewhere."`
	Export     auditExportCmd     `cmd:"" help:"${audit_export_cmd}"`
	Receipt    auditReceiptCmd    `cmd:"" name:"verify-receipt" help:"${audit_receipt_cmd}"`
	AcceptLoss auditLossCmd       `cmd:"" help:"${audit_loss_cmd}"`
}

type auditVerifyCmd struct {
	Checkpoints []string `type:"existingfile" placeholder:"FILE" help:"${audit_checkpoints}"`
	PublicKey   string   `type:"existingfile" placeholder:"FILE" help:"${audit_public_key}"`
	Offline     string   `type:"existingfile" placeholder:"EXPORT" help:"${audit_offline}"`
	WitnessKey  []string `placeholder:"KEY" help:"${audit_witness}"`
	JSON        bool     `help:"Print JSON."`
}

// Run verifies the audit log. It returns an error if a chain is not valid, so that the exit code is 1.
func (cmd *auditVerifyCmd) Run(ctx context.Context, cfg *installation.Config, t *terminal.Terminal) error {
	if cmd.PublicKey != "" {
		return cmd.verifyPublic(ctx, cfg, t)
	}
	if cmd.Offline != "" {
		return errors.New("--offline requires --public-key: an export must not vouch for itself")
	}
	return installation.Use(ctx, cfg, t, func(b *installation.Backend) error {
		files := cmd.Checkpoints
		if len(files) == 0 {
			var err error
			if files, err = cfg.CheckpointDir().Files(); err != nil {
				return err
			}
		}
		key := b.Store.Signer().Public
		checkpoints, err := cmd.readCheckpoints(files, key, t)
		if err != nil {
			return err
		}
		reports, broken, err := VerifyAudit(ctx, b, cfg, key, checkpoints)
		if err != nil {
			return err
		}
		err = b.Store.ReadAuditLog(ctx, func(ctx context.Context, log store.AuditLog) error {
			missing, err := cmd.requireCosigned(ctx, log, key, reports, b.Store.Now())
			broken = errors.Join(broken, missing)
			return err
		})
		if err != nil {
			return err
		}
		return cmd.print(reports, broken, t)
	})
}

// VerifyAudit verifies everything that an installation can verify. The results are those of auditlog.Verify.
func VerifyAudit(ctx context.Context, b *installation.Backend, cfg *installation.Config, key audit.Public, checkpoints *auditlog.Checkpoints) (
	reports []auditlog.Report, broken, err error) {
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

// readCheckpoints reads files of checkpoints. Those that the command line names must be whole.
func (cmd *auditVerifyCmd) readCheckpoints(files []string, key audit.Public, t *terminal.Terminal) (
	*auditlog.Checkpoints, error) {
	checkpoints := auditlog.ReadCheckpoints(files, key)
	for _, damage := range checkpoints.Damaged {
		if len(cmd.Checkpoints) > 0 {
			return nil, fmt.Errorf("reading checkpoints: %s", damage)
		}
		fmt.Fprintf(t.Err, "%s. Verification continues with the others.\n", damage)
	}
	return checkpoints, nil
}

// requireCosigned returns what the witnesses that the command line names did not cosign.
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

func (cmd *auditVerifyCmd) print(reports []auditlog.Report, broken error, t *terminal.Terminal) error {
	if cmd.JSON {
		return errors.Join(broken, t.JSON(reports))
	}
	for _, r := range reports {
		if r.OK {
			t.Printf("%s\n", r)
		}
	}
	return broken
}

// verifyPublic verifies an export, or the database with a role that may only read. It needs no installation.
func (cmd *auditVerifyCmd) verifyPublic(ctx context.Context, cfg *installation.Config, t *terminal.Terminal) error {
	key, err := readPublicKey(cmd.PublicKey)
	if err != nil {
		return err
	}
	if key, err = cmd.follow(ctx, cfg, key); err != nil {
		return err
	}
	checkpoints, err := cmd.readCheckpoints(cmd.Checkpoints, key, t)
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
	if cmd.Offline != "" {
		err = withExport(cmd.Offline, func(e *auditlog.Export) error { return verify(ctx, e, time.Now()) })
	} else {
		err = readAuditLog(ctx, cfg, func(ctx context.Context, log store.AuditLog, now time.Time) error {
			return verify(ctx, log, now)
		})
	}
	if err != nil {
		return err
	}
	fmt.Fprintln(t.Err, "Not verified without the installation: the signatures of activations and plugins, and the "+
		"MACs of overrides.")
	return cmd.print(reports, broken, t)
}

// follow returns the key with the later keys of the log, which the checkpoints may have been signed with.
func (cmd *auditVerifyCmd) follow(ctx context.Context, cfg *installation.Config, key audit.Public) (audit.Public, error) {
	var statements []string
	var err error
	if cmd.Offline != "" {
		err = withExport(cmd.Offline, func(e *auditlog.Export) (err error) {
			statements, err = e.KeyStatements(ctx)
			return err
		})
	} else {
		err = readAuditLog(ctx, cfg, func(ctx context.Context, log store.AuditLog, _ time.Time) (err error) {
			statements, err = log.KeyStatements(ctx)
			return err
		})
	}
	if err != nil {
		return key, err
	}
	return key.With(statements)
}

func readPublicKey(file string) (audit.Public, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return audit.Public{}, err
	}
	key, err := audit.ParseKeys(string(text))
	if err != nil {
		return key, fmt.Errorf("%s: %w", file, err)
	}
	return key, nil
}

func withExport(file string, fn func(*auditlog.Export) error) error {
	f, err := os.Open(file)
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
		return fmt.Errorf("%s: %w", file, err)
	}
	return fn(export)
}

// readAuditLog calls fn with a snapshot of the audit log. It needs the database's address and nothing else of the
// installation.
func readAuditLog(ctx context.Context, c *installation.Config, fn func(context.Context, store.AuditLog, time.Time) error) error {
	if c.DatabaseURL == "" {
		return errors.New("--public-key requires ASSAY_DATABASE_URL, or an export with --offline")
	}
	reader, err := store.OpenAuditReader(ctx, c.DatabaseURL)
	if err != nil {
		return err
	}
	return errors.Join(reader.Read(ctx, fn), reader.Close())
}

type auditExportCmd struct {
	File      string `arg:"" help:"File to write; - is standard output."`
	PublicKey string `type:"existingfile" placeholder:"FILE" help:"${audit_public_key}"`
}

// Run exports the audit log.
func (cmd *auditExportCmd) Run(ctx context.Context, cfg *installation.Config, t *terminal.Terminal) error {
	if cmd.PublicKey != "" {
		key, err := readPublicKey(cmd.PublicKey)
		if err != nil {
			return err
		}
		return readAuditLog(ctx, cfg, func(ctx context.Context, log store.AuditLog, now time.Time) error {
			return cmd.export(ctx, log, key, now, t)
		})
	}
	return installation.Use(ctx, cfg, t, func(b *installation.Backend) error {
		return b.Store.ReadAuditLog(ctx, func(ctx context.Context, log store.AuditLog) error {
			return cmd.export(ctx, log, b.Store.Signer().Public, b.Store.Now(), t)
		})
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
	// A file with the given name is always whole.
	f, err := os.CreateTemp(filepath.Dir(cmd.File), filepath.Base(cmd.File)+".*.new")
	if err != nil {
		return err
	}
	err = errors.Join(write(f), f.Sync(), f.Close())
	if err == nil {
		err = os.Rename(f.Name(), cmd.File)
	}
	if err != nil {
		return errors.Join(err, os.Remove(f.Name()))
	}
	return nil
}

type auditCheckpointCmd struct {
	JSON bool `help:"Print JSON."`
}

// Run brings the trees up to date, as a host does, and prints the newest checkpoints.
func (cmd *auditCheckpointCmd) Run(ctx context.Context, cfg *installation.Config, t *terminal.Terminal) error {
	return installation.Use(ctx, cfg, t, func(b *installation.Backend) error {
		// Without a directory, whose files belong to the host.
		keeper := &auditlog.Keeper{Store: b.Store, Signer: b.Store.Signer(), Logger: installation.QuietLog(t)}
		var damaged error
		if keeper.Signer.Ready(audit.Checkpoints) == nil { // else hosts sign, and the newest are seconds old
			damaged = keeper.SignHeads(ctx)
		}
		trees, err := b.Store.Trees(ctx)
		if err != nil && len(trees) == 0 {
			return errors.Join(damaged, err)
		}
		var signed []string
		var published []audit.TreeHead
		for _, chain := range slices.Sorted(maps.Keys(trees)) {
			note, err := b.Store.NewestCheckpoint(ctx, chain)
			if err != nil {
				return err
			}
			if note != "" {
				signed, published = append(signed, note), append(published, trees[chain].TreeHead)
			}
		}
		if cmd.JSON {
			var keys []string
			for _, tree := range published {
				keys = append(keys, keeper.Signer.TreeKeys(tree)...)
			}
			return errors.Join(damaged, t.JSON(map[string]any{"verifier_keys": keys, "checkpoints": signed,
				"key_statements": keeper.Signer.Statements()}))
		}
		for i, text := range signed {
			t.Printf("%s\n", text)
			for _, key := range keeper.Signer.TreeKeys(published[i]) {
				fmt.Fprintf(t.Err, "verifier key: %s\n", key)
			}
		}
		for _, statement := range keeper.Signer.Statements() {
			fmt.Fprintf(t.Err, "\n%s", statement)
		}
		return damaged
	})
}
