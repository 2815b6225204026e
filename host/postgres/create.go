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
)

// settings are a new cluster's, added to its postgresql.conf. Its operator may edit them there.
//
// Errors are logged without the statement and its values, which can hold what a customer asked about.
const settings = `
# Assay
max_connections = 100
shared_buffers = 128MB
fsync = on
full_page_writes = on
synchronous_commit = on
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

// access replaces pg_hba.conf: this machine only, and nobody without the password.
const access = `# TYPE  DATABASE  USER  ADDRESS       METHOD
host    all       all   127.0.0.1/32  scram-sha-256
`

// create makes the cluster in the folder home, or in a refuge when the user that Postgres runs as cannot reach home.
//
// Each step leaves a state that the next Open completes: the location is remembered first, the password before the
// cluster that needs it, and the cluster appears whole by one rename.
func (c *Cluster) create(ctx context.Context, home string) error {
	var err error
	if c.account, err = unprivileged(); err != nil {
		return err
	}
	if home, err = c.settle(home); err != nil {
		return err
	}
	c.data = filepath.Join(home, "postgres")
	bin, err := c.binaries(ctx, home, 0)
	if err != nil {
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
	if err := c.initialise(ctx, bin, work, fresh); err != nil {
		return fmt.Errorf("creating the database: %w", err)
	}
	if c.version, err = versionOf(fresh); err != nil {
		return err
	}
	if err := c.record.write(c.path("json")); err != nil {
		return err
	}
	// An empty folder may have been prepared for the database; a full one is not ours to replace.
	_ = os.Remove(c.data)
	if err := os.Rename(fresh, c.data); err != nil {
		return fmt.Errorf("creating the database: %w", err)
	}
	if err := syncFolder(home); err != nil {
		return fmt.Errorf("creating the database: %w", err)
	}
	c.log.Info("created the database", "at", c.data, "postgres", c.version)
	return nil
}

// settle returns the folder that the cluster will live in: home if the account can reach it, else a new folder in the
// refuge, which postgres.location then remembers.
func (c *Cluster) settle(home string) (string, error) {
	reachable, err := c.account.enters(home)
	if err != nil || reachable {
		return home, err
	}
	if !isFolder(c.config.refuge) {
		if err := makeFolder(c.config.refuge, 0o755); err != nil {
			return "", fmt.Errorf("making a folder for the database: %w", err)
		}
	}
	refuge, err := filepath.EvalSymlinks(c.config.refuge)
	if err != nil {
		return "", fmt.Errorf("making a folder for the database: %w", err)
	}
	reachable, err = c.account.enters(refuge)
	if err != nil {
		return "", err
	}
	if !reachable {
		return "", fmt.Errorf("making a folder for the database: the user %s, whom Postgres runs as, can enter neither %s nor "+
			"%s: choose another data directory, or set ASSAY_DATABASE_URL", c.account.name, home, refuge)
	}
	home = filepath.Join(refuge, strings.ToLower(rand.Text()))
	if err := makeFolder(home, 0o711); err != nil {
		return "", fmt.Errorf("making a folder for the database: %w", err)
	}
	// For a person who wonders, years later, whose this is.
	if err := os.WriteFile(filepath.Join(home, "data-directory"), []byte(c.dir+"\n"), 0o600); err != nil {
		return "", fmt.Errorf("making a folder for the database: %w", err)
	}
	c.log.Info("placing the database outside the data directory, which Postgres's user cannot enter", "user",
		c.account.name,
		"at", home)
	return home, writeDurable(c.path("location"), []byte(home+"\n"), 0o600)
}

// makeFolder makes a folder of exactly that mode, whatever the umask.
func makeFolder(path string, mode os.FileMode) error {
	if err := os.MkdirAll(path, mode); err != nil {
		return err
	}
	return os.Chmod(path, mode)
}

// initialise runs initdb into the folder fresh, inside work, and configures what it made.
func (c *Cluster) initialise(ctx context.Context, bin, work, fresh string) error {
	secret := filepath.Join(work, "password")
	if err := os.WriteFile(secret, []byte(c.record.Password+"\n"), 0o600); err != nil {
		return err
	}
	if err := errors.Join(c.account.own(secret), c.account.own(work)); err != nil {
		return err
	}
	initdb := c.account.command(ctx, filepath.Join(bin, "initdb"), "--pgdata="+fresh, "--username="+User,
		"--pwfile="+secret, "--encoding=UTF8", "--locale=C", "--auth=scram-sha-256", "--data-checksums",
		"--no-instructions")
	said, err := initdb.CombinedOutput()
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if err != nil {
		return fmt.Errorf("running %s: %w: %s", initdb.Path, err, lastLines(said))
	}
	if err := os.Remove(secret); err != nil {
		return err
	}
	return errors.Join(
		rewrite(filepath.Join(fresh, "postgresql.conf"), os.O_APPEND, settings),
		rewrite(filepath.Join(fresh, "pg_hba.conf"), os.O_TRUNC, access))
}

// rewrite changes an existing file in place, which keeps its owner, and durably.
func rewrite(path string, how int, text string) error {
	file, err := os.OpenFile(path, os.O_WRONLY|how, 0)
	if err != nil {
		return err
	}
	_, err = file.WriteString(text)
	return errors.Join(err, file.Sync(), file.Close())
}

// binaries finds the programs, downloading them into the folder home if it must.
func (c *Cluster) binaries(ctx context.Context, home string, major int) (string, error) {
	return Binaries(ctx, Search{
		Folders:    c.config.folders,
		Cache:      filepath.Join(home, "postgres-bin"),
		Repository: c.config.repository,
		Offline:    c.config.Offline,
		Major:      major,
		Download:   func() { c.config.Progress(StageDownloading) },
		account:    c.account,
	})
}

// versionOf reads which major version made the cluster; the error is fs.ErrNotExist when there is none.
func versionOf(data string) (int, error) {
	text, err := os.ReadFile(filepath.Join(data, "PG_VERSION"))
	if err != nil {
		return 0, fmt.Errorf("reading the database's version: %w", err)
	}
	major, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil {
		return 0, fmt.Errorf("reading the database's version: %w", err)
	}
	return major, nil
}
