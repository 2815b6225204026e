//go:build linux || darwin

package postgres

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

const (
	startAttempts = 20                     // of starting Postgres when something passing stands in the way
	startPause    = 250 * time.Millisecond // between those that have to wait for it to pass
	greetBound    = 5 * time.Second        // one connection
	answerBound   = 30 * time.Second       // a Postgres that calls itself ready, to answer
)

// errExited says that Postgres ended before it was ready.
var errExited = errors.New("it ended at once")

// start runs Postgres until one answers.
func (c *Cluster) start(ctx context.Context) error {
	bin, err := c.binaries(ctx, filepath.Dir(c.data), c.version)
	if err != nil {
		return fmt.Errorf("starting the database in %s, which Postgres %d made: %w", c.data, c.version, err)
	}
	c.config.Progress(StageStarting)
	// The earlier port first: pools that lost a crashed Postgres find the new one there.
	port := c.record.Port
	for attempt := 1; ; attempt++ {
		if port == 0 {
			if port, err = freePort(); err != nil {
				return err
			}
		}
		if err := c.removeStale(ctx); err != nil {
			return err
		}
		err := c.launch(ctx, bin, port)
		if err == nil || !errors.Is(err, errExited) || attempt == startAttempts {
			return err
		}
		switch {
		case taken(port):
			port = 0
		case strings.Contains(err.Error(), "pre-existing shared memory block"),
			strings.Contains(err.Error(), `lock file "postmaster.pid"`):
			// Either the last processes of a Postgres that was killed are still ending, or a host that was killed had
			// just started one.
			select {
			case <-ctx.Done():
				return context.Cause(ctx)
			case <-time.After(startPause):
			}
			if adopted, err := c.adopt(ctx); adopted || err != nil {
				return err
			}
		default:
			return err
		}
	}
}

// launch runs Postgres on the port and waits until it answers. The error is errExited, with what Postgres said, when it
// ends before that.
func (c *Cluster) launch(ctx context.Context, bin string, port int) error {
	out, err := os.OpenFile(c.path("log"), os.O_CREATE|os.O_WRONLY|os.O_TRUNC|os.O_APPEND, 0o600)
	if err != nil {
		return fmt.Errorf("starting Postgres: %w", err)
	}
	defer func() { _ = out.Close() }()
	// Postgres must outlive ctx, and this process.
	cmd := c.account.command(context.WithoutCancel(ctx), filepath.Join(bin, "postgres"), "-D", c.data,
		"-c", "listen_addresses=127.0.0.1", "-c", "port="+strconv.Itoa(port), "-c", "unix_socket_directories=")
	cmd.Stdout, cmd.Stderr = out, out
	before, started := c.logEnd(), time.Now()
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("starting Postgres: %w", err)
	}
	exited := make(chan struct{})
	go func() {
		defer close(exited)
		_ = cmd.Wait()
	}()
	up, err := c.await(ctx, func() bool {
		select {
		case <-exited:
			return false
		default:
			return true
		}
	})
	switch {
	case up:
		c.exited = exited
		c.log.Info("started Postgres", "pid", cmd.Process.Pid, "port", c.port, "took", time.Since(started))
		return nil
	case err == nil:
		return fmt.Errorf("starting Postgres: %w: %s", errExited, c.said(before))
	}
	// It may not have written its postmaster.pid yet, by which stop would find it.
	_ = cmd.Process.Signal(syscall.SIGINT)
	select {
	case <-exited:
	case <-time.After(fastBound):
		_ = cmd.Cancel()
	}
	return fmt.Errorf("starting Postgres: %w", err)
}

// adopt takes over a Postgres that already runs, as after the death of the host that started it. It answers false when
// there is none, or none any more.
func (c *Cluster) adopt(ctx context.Context) (bool, error) {
	adopted, err := c.await(ctx, func() bool { return false })
	if err != nil {
		return false, fmt.Errorf("joining the running Postgres: %w", err)
	}
	if adopted {
		c.log.Info("joined the running Postgres", "port", c.port)
	}
	return adopted, nil
}

// await waits until the Postgres of the cluster answers, for as long as it says that it is starting, recovering or
// stopping. It answers false once none runs and coming says that none will.
func (c *Cluster) await(ctx context.Context, coming func() bool) (up bool, err error) {
	var ready time.Time
	err = poll(ctx, func() (bool, error) {
		willCome := coming()
		p, ok, err := running(c.data)
		if err != nil || !ok {
			return !willCome, err
		}
		if p.status != "ready" {
			return false, nil
		}
		c.port = p.port
		if err = c.greet(ctx); err == nil {
			up = true
			return true, nil
		}
		if ready.IsZero() {
			ready = time.Now()
		}
		if rejected(err) || time.Since(ready) > answerBound {
			return false, fmt.Errorf("asking Postgres (process %d, port %d): %w", p.pid, p.port, err)
		}
		return false, nil
	})
	return up, err
}

// greet connects, makes sure that this is the Postgres of the cluster, and creates the database if it is missing.
func (c *Cluster) greet(ctx context.Context) (err error) {
	ctx, cancel := context.WithTimeout(ctx, greetBound)
	defer cancel()
	config, err := pgx.ParseConfig(c.urlOf("postgres"))
	if err != nil {
		return err
	}
	// A stranger on the port must not learn the password by asking for it in clear.
	config.RequireAuth = "scram-sha-256"
	conn, err := pgx.ConnectConfig(ctx, config)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, conn.Close(ctx)) }()
	var data string
	var exists bool
	err = conn.QueryRow(ctx, `SELECT current_setting('data_directory'), current_setting('server_version'),
		EXISTS (SELECT FROM pg_database WHERE datname = $1)`, Name).Scan(&data, &c.record.Version, &exists)
	if err != nil {
		return err
	}
	if !sameFile(data, c.data) {
		return fmt.Errorf("it serves %s, not %s", data, c.data)
	}
	if !exists {
		_, err = conn.Exec(ctx, "CREATE DATABASE "+pgx.Identifier{Name}.Sanitize())
	}
	return err
}

// rejected says whether Postgres refused the password, which waiting does not mend (PostgreSQL, appendix A, class 28).
func rejected(err error) bool {
	refusal, ok := errors.AsType[*pgconn.PgError](err)
	return ok && strings.HasPrefix(refusal.Code, "28")
}

// removeStale removes a postmaster.pid whose number was given to another program since, or that a machine's crash left
// empty: both would keep Postgres from starting. One whose process is gone is left to Postgres, which takes more care:
// it looks there for shared memory that the last processes of the earlier one still use.
func (c *Cluster) removeStale(ctx context.Context) error {
	// One that is being written is empty for an instant.
	bounded, cancel := context.WithTimeout(ctx, startPause)
	defer cancel()
	var p postmaster
	err := poll(bounded, func() (done bool, err error) {
		text, err := os.ReadFile(pidFile(c.data))
		p = parsePostmaster(string(text))
		return len(text) > 0 || err != nil, err
	})
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case err != nil && bounded.Err() == nil:
		return fmt.Errorf("reading a stale postmaster.pid: %w", err)
	}
	if p.pid > 0 && (isPostmaster(p.pid, c.data) || errors.Is(syscall.Kill(p.pid, 0), syscall.ESRCH)) {
		return nil
	}
	c.log.Warn("removing the postmaster.pid of a Postgres that ended without removing it", "pid", p.pid)
	if err := os.Remove(pidFile(c.data)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("removing a stale postmaster.pid: %w", err)
	}
	return nil
}

// freePort asks the system for a port of 127.0.0.1 that nothing listens on.
func freePort() (int, error) {
	listener, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		return 0, fmt.Errorf("looking for a free port: %w", err)
	}
	return listener.Addr().(*net.TCPAddr).Port, listener.Close()
}

// taken says whether something listens on the port of 127.0.0.1.
func taken(port int) bool {
	listener, err := net.Listen("tcp4", "127.0.0.1:"+strconv.Itoa(port))
	if err != nil {
		return true
	}
	_ = listener.Close()
	return false
}

// sameFile says whether both paths lead to the same folder.
func sameFile(a, b string) bool {
	first, err := os.Stat(a)
	if err != nil {
		return false
	}
	second, err := os.Stat(b)
	return err == nil && os.SameFile(first, second)
}
