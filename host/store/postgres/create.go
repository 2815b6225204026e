//go:build linux || darwin

package postgres

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"assay/host/internal/durable"
	"assay/registry/fault"
)

// settings are appended to a new cluster's postgresql.conf, where operators may edit them. Errors are logged without
// the statement and its values, which can contain checked entities.
const settings = `
# Assay
max_connections = 100
shared_buffers = 128MB
fsync = on
full_page_writes = on
synchronous_commit = on
checkpoint_timeout = 15min
password_encryption = 'scram-sha-256'
jit = off
timezone = 'UTC'
log_timezone = 'UTC'
logging_collector = on
log_destination = 'stderr'
log_directory = 'log'
log_filename = 'postgres-%Y%m%d-%H%M%S.log'
log_rotation_age = 0
log_rotation_size = 10MB
log_line_prefix = '%m [%p] '
log_checkpoints = off
log_error_verbosity = terse
log_min_error_statement = panic
`

// access replaces pg_hba.conf: connections come from this machine only, and need the password.
const access = `# TYPE  DATABASE  USER  ADDRESS       METHOD
host    all       all   127.0.0.1/32  scram-sha-256
`

// create creates the cluster in the folder home, or below the fallback directory if the user that Postgres runs as
// cannot enter home.
//
// A crash after any step leaves a state that the next Open completes: the location is stored first, then the password,
// and one rename makes the complete cluster appear.
func (c *Cluster) create(ctx context.Context, home string) error {
	var err error
	if c.account, err = unprivileged(); err != nil {
		return err
	}
	if home, err = c.chooseParent(ctx, home); err != nil {
		return err
	}
	c.data = filepath.Join(home, "postgres")
	if err := c.findPrograms(ctx); err != nil {
		return err
	}
	c.config.Progress(StageCreating)

	const prefix = "postgres.new-"
	removeLeftovers(home, prefix)
	work, err := os.MkdirTemp(home, prefix)
	if err != nil {
		return fmt.Errorf("creating the database: %w", err)
	}
	defer func() { _ = os.RemoveAll(work) }()
	c.record = record{Password: rand.Text(), Location: c.data}
	fresh := filepath.Join(work, "data")
	if err := c.initialise(ctx, work, fresh); err != nil {
		return fmt.Errorf("creating the database: %w", err)
	}
	if c.version, err = versionOf(fresh); err != nil {
		return err
	}
	if err := c.record.write(c.path("json")); err != nil {
		return err
	}
	// Removes an empty folder prepared for the database; a full one makes the rename fail.
	_ = os.Remove(c.data)
	err = os.Rename(fresh, c.data)
	if err == nil {
		err = durable.SyncFolder(home)
	}
	if err != nil {
		return fmt.Errorf("creating the database: %w", err)
	}
	c.log.Info("created the database", "at", c.data, "postgres", c.version)
	return nil
}

// chooseParent returns the parent folder of the cluster: home if the account can enter it, else a new folder in the
// fallback directory, whose path it stores in postgres.location.
func (c *Cluster) chooseParent(ctx context.Context, home string) (string, error) {
	if c.account == nil || c.account.executes(ctx, home) {
		return home, nil
	}
	refuge := c.config.fallbackDir
	if !isFolder(refuge) {
		if err := makeFolder(refuge, 0o755); err != nil {
			return "", fmt.Errorf("creating a folder for the database: %w", err)
		}
	}
	if !c.account.executes(ctx, refuge) {
		return "", errors.Join(context.Cause(ctx), fmt.Errorf("creating a folder for the database: the user %s, which "+
			"Postgres runs as, can enter neither %s nor %s: choose another data directory, or set ASSAY_DATABASE_URL",
			c.account.name, home, refuge))
	}
	refuge, err := filepath.EvalSymlinks(refuge)
	if err != nil {
		return "", fmt.Errorf("creating a folder for the database: %w", err)
	}
	home = filepath.Join(refuge, strings.ToLower(rand.Text()))
	if err := makeFolder(home, 0o711); err != nil {
		return "", fmt.Errorf("creating a folder for the database: %w", err)
	}
	// Records for operators which data directory the folder belongs to.
	if err := os.WriteFile(filepath.Join(home, "data-directory"), []byte(c.dir+"\n"), 0o600); err != nil {
		return "", fmt.Errorf("creating a folder for the database: %w", err)
	}
	c.log.Info("placing the database outside the data directory, which Postgres's user cannot enter", "user",
		c.account.name, "at", home)
	return home, durable.WriteFile(c.path("location"), []byte(home+"\n"))
}

// makeFolder creates a folder with exactly the mode, regardless of the umask.
func makeFolder(path string, mode os.FileMode) error {
	if err := os.MkdirAll(path, mode); err != nil {
		return err
	}
	return os.Chmod(path, mode)
}

// initialise runs initdb into the folder fresh, inside work, and configures the result.
func (c *Cluster) initialise(ctx context.Context, work, fresh string) error {
	secret := filepath.Join(work, "password")
	if err := os.WriteFile(secret, []byte(c.record.Password+"\n"), 0o600); err != nil {
		return err
	}
	if err := errors.Join(c.account.chown(secret), c.account.chown(work)); err != nil {
		return err
	}
	initdb := c.account.command(ctx, filepath.Join(c.bin, "initdb"), "--pgdata="+fresh, "--username="+User,
		"--pwfile="+secret, "--encoding=UTF8", "--locale=C", "--auth=scram-sha-256", "--data-checksums",
		"--no-instructions")
	output, err := initdb.CombinedOutput()
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if err != nil {
		return fmt.Errorf("running %s: %w: %s", initdb.Path, err, lastLines(output))
	}
	return errors.Join(
		os.Remove(secret),
		rewrite(filepath.Join(fresh, "postgresql.conf"), os.O_APPEND, settings),
		rewrite(filepath.Join(fresh, "pg_hba.conf"), os.O_TRUNC, access))
}

// rewrite changes an existing file durably and in place, so that it keeps its owner. mode is os.O_APPEND or os.O_TRUNC.
func rewrite(path string, mode int, text string) error {
	file, err := os.OpenFile(path, os.O_WRONLY|mode, 0)
	if err != nil {
		return err
	}
	_, err = file.WriteString(text)
	return errors.Join(err, file.Sync(), file.Close())
}

// findPrograms sets bin to a folder of programs of the cluster's version, or of any version while there is no cluster.
func (c *Cluster) findPrograms(ctx context.Context) (err error) {
	if c.bin != "" {
		return nil
	}
	c.bin, err = search{
		folders:    c.config.folders,
		cache:      filepath.Join(filepath.Dir(c.data), "postgres-bin"),
		repository: c.config.repository,
		offline:    c.config.Offline,
		major:      c.version,
		announce:   func() { c.config.Progress(StageDownloading) },
		account:    c.account,
	}.binaries(ctx)
	if err != nil && c.version != 0 {
		return fmt.Errorf("running the database in %s, which Postgres %d created: %w", c.data, c.version, err)
	}
	return err
}

// versionOf returns the major version that created the cluster; the error is fs.ErrNotExist if there is no cluster.
func versionOf(data string) (major int, err error) {
	defer fault.WrapAll(&err, "reading the database's version")
	text, err := os.ReadFile(filepath.Join(data, "PG_VERSION"))
	if err != nil {
		return 0, err
	}
	return strconv.Atoi(strings.TrimSpace(string(text)))
}
