//go:build linux || darwin

package postgres

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"assay/registry/fault"
)

// Cluster is one process's use of the private Postgres of a data directory. Its methods may be called concurrently.
type Cluster struct {
	dir     string // absolute, free of symbolic links
	data    string // the cluster's folder
	account *account
	version int    // major, of the cluster
	bin     string // the folder of the programs; "" until needed
	port    int
	record  record
	config  Config
	log     *slog.Logger
	users   *lockFile

	tending     sync.WaitGroup // prunes its logs, and supervises it
	stopTending context.CancelFunc
	problem     atomic.Pointer[string] // that supervising found; nil: none
	closing     sync.Mutex
	closed      bool
}

// Open joins the running Postgres of cfg.Dir. If none runs, Open starts it, after creating the cluster and downloading
// the programs if necessary. It returns once Postgres accepts connections and the database Name exists.
//
// With cfg.Existing, it creates nothing and fails with ErrNone where there is no cluster.
//
// It waits, until ctx ends, while another process starts or stops the same Postgres and while Postgres recovers from a
// crash. It fails with ErrNotInstalled if there is no Postgres to run.
func Open(ctx context.Context, cfg Config) (c *Cluster, err error) {
	defer fault.WrapAll(&err, "opening the database of %s", cfg.Dir)
	cfg.Logger = cmp.Or(cfg.Logger, slog.New(slog.DiscardHandler))
	if cfg.Progress == nil {
		cfg.Progress = func(string) {}
	}
	cfg.fallbackDir = cmp.Or(cfg.fallbackDir, defaultFallbackDir)
	if cfg.Existing { // checked first, because opening the locks would create files
		if _, err := os.Stat(filepath.Join(cfg.Dir, "postgres.json")); errors.Is(err, fs.ErrNotExist) {
			return nil, ErrNone
		}
	}
	dir, err := prepare(cfg.Dir)
	if err != nil {
		return nil, err
	}
	start, err := openLock(filepath.Join(dir, "postgres.start"))
	if err != nil {
		return nil, err
	}
	defer start.release()
	if err := start.take(ctx, syscall.LOCK_EX, func() { cfg.Progress(StageWaiting) }); err != nil {
		return nil, fmt.Errorf("%s: %w", StageWaiting, err)
	}
	users, err := openLock(filepath.Join(dir, "postgres.users"))
	if err != nil {
		return nil, err
	}
	// The start lock keeps other processes out between the two locks.
	alone, err := users.try(syscall.LOCK_EX)
	if err == nil {
		err = users.take(ctx, syscall.LOCK_SH, nil)
	}
	if err != nil {
		users.release()
		return nil, err
	}
	c = &Cluster{dir: dir, config: cfg, log: cfg.Logger, users: users}
	if err := c.join(ctx, alone); err != nil {
		// ctx may have ended, but a Postgres without users must not keep running.
		rescue, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopBound)
		defer cancel()
		return nil, errors.Join(err, c.leave(rescue))
	}
	tend, cancel := context.WithCancel(context.WithoutCancel(ctx))
	c.stopTending = cancel
	c.tending.Go(func() { c.keepPruningLogs(tend) })
	if cfg.Supervise {
		c.tending.Go(func() { c.supervise(tend) })
	}
	return c, nil
}

// prepare creates the data directory and returns its real, absolute path.
func prepare(dir string) (string, error) {
	if dir == "" {
		return "", errors.New("no data directory is set")
	}
	// 0711: the user that Postgres runs as must reach its own folder, and nothing else.
	if err := os.MkdirAll(dir, 0o711); err != nil {
		return "", fmt.Errorf("creating the data directory: %w", err)
	}
	resolved, err := filepath.EvalSymlinks(dir)
	if err == nil {
		resolved, err = filepath.Abs(resolved)
	}
	if err != nil {
		return "", fmt.Errorf("resolving the data directory: %w", err)
	}
	// The working directory itself may have been reached through a link.
	return filepath.EvalSymlinks(resolved)
}

// join adopts, starts or creates the cluster while the start lock is held. alone reports that no other process uses it.
func (c *Cluster) join(ctx context.Context, alone bool) error {
	var err error
	if c.record, err = readRecord(c.path("json")); err != nil {
		return err
	}
	home, err := readLocation(c.path("location"))
	if err != nil {
		return err
	}
	if home == "" || c.record.Created.IsZero() && !isFolder(home) {
		home = c.dir
	}
	c.data = filepath.Join(home, "postgres")
	switch major, err := versionOf(c.data); {
	case err == nil:
		c.version = major
	case !errors.Is(err, fs.ErrNotExist):
		return err
	case !c.record.Created.IsZero():
		return fmt.Errorf("%s, the database's folder since %s, is missing: restore it, or remove %s and %s to begin "+
			"with an empty one", c.data, c.record.Created.Format(time.DateOnly), c.path("json"), c.path("location"))
	case c.config.Existing: // its creation was interrupted
		return ErrNone
	default:
		if err := c.create(ctx, home); err != nil {
			return err
		}
	}
	if c.record.Password == "" {
		return fmt.Errorf("%s holds a database but %s has no password for it: restore that file", c.data,
			c.path("json"))
	}
	if c.account, err = accountOf(c.data); err != nil {
		return err
	}
	adopted, err := c.adopt(ctx)
	if err != nil {
		return fmt.Errorf("joining the running Postgres: %w", err)
	}
	if adopted {
		c.log.Info("joined the running Postgres", "port", c.port)
	} else {
		if !alone && c.record.Machine != machine() {
			return fmt.Errorf("%s is in use by a process of another machine or container: give each host one database "+
				"through ASSAY_DATABASE_URL", c.dir)
		}
		if err := c.start(ctx); err != nil {
			return err
		}
	}
	c.record.Port, c.record.Location, c.record.Machine = c.port, c.data, machine()
	if c.record.Created.IsZero() {
		c.record.Created = time.Now().UTC().Truncate(time.Second)
	}
	return c.record.write(c.path("json"))
}

// isFolder reports whether there is a folder at path.
func isFolder(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.IsDir()
}

// path returns the file postgres.<suffix> in the data directory.
func (c *Cluster) path(suffix string) string { return filepath.Join(c.dir, "postgres."+suffix) }

// URL returns the database's address: postgres://assay:PASSWORD@127.0.0.1:PORT/assay?sslmode=disable. The role owns the
// whole cluster. The address is valid until the last process closes the cluster.
func (c *Cluster) URL() string { return c.urlOf(Name) }

func (c *Cluster) urlOf(database string) string {
	address := url.URL{
		Scheme:   "postgres",
		User:     url.UserPassword(User, c.record.Password),
		Host:     "127.0.0.1:" + strconv.Itoa(c.port),
		Path:     "/" + database,
		RawQuery: "sslmode=disable",
	}
	return address.String()
}

// Close ends this use of the cluster. The last process to do so stops Postgres and waits until it is gone, which takes
// as long as a checkpoint and 40 s at most. If ctx ends first, the shutdown continues by itself. Further calls do
// nothing.
func (c *Cluster) Close(ctx context.Context) error {
	c.closing.Lock()
	defer c.closing.Unlock()
	if c.closed {
		return nil
	}
	c.closed = true
	c.stopTending()
	c.tending.Wait()
	return fault.Wrap(c.closeOnce(ctx), "closing the database of %s", c.dir)
}

func (c *Cluster) closeOnce(ctx context.Context) error {
	start, err := openLock(c.path("start"))
	if err != nil {
		c.users.release()
		return err
	}
	defer start.release()
	if err := start.take(ctx, syscall.LOCK_EX, nil); err != nil {
		c.users.release()
		return fmt.Errorf("%s: %w", StageWaiting, err)
	}
	return c.leave(ctx)
}

// leave ends this use of the cluster and stops Postgres if it was the last. The start lock is held.
func (c *Cluster) leave(ctx context.Context) error {
	defer c.users.release()
	last, err := c.users.try(syscall.LOCK_EX)
	if err != nil || !last || c.data == "" {
		return err
	}
	return c.stop(ctx)
}
