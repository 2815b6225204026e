//go:build linux || darwin

package postgres

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"assay/registry/fault"
)

const (
	startAttempts = 20                     // when a transient condition keeps Postgres from starting
	startPause    = 250 * time.Millisecond // between attempts
	connectBound  = 5 * time.Second        // for one connection
	answerBound   = 30 * time.Second       // for a Postgres that runs and is not recovering to answer

	fastSeconds      = "30"             // a fast shutdown writes one checkpoint
	immediateSeconds = "10"             // in an immediate shutdown Postgres kills its processes after 5 s
	stopBound        = 45 * time.Second // for both
)

// control runs pg_ctl on the cluster. Its output, and what Postgres writes before its own log is open, replaces
// postgres.log.
func (c *Cluster) control(ctx context.Context, action string, options ...string) error {
	if err := c.findPrograms(ctx); err != nil {
		return err
	}
	out, err := os.OpenFile(c.path("log"), os.O_CREATE|os.O_WRONLY|os.O_TRUNC|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	defer func() { _ = out.Close() }()
	cmd := c.account.command(ctx, filepath.Join(c.bin, "pg_ctl"),
		append([]string{action, "-D", ".", "-s", "-w"}, options...)...)
	cmd.Dir = c.data // pg_ctl passes -D through a shell, so the path must not be part of it
	cmd.Stdout, cmd.Stderr = out, out
	// An interrupted "pg_ctl start" passes SIGINT on to the Postgres that it started.
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGINT) }
	err = cmd.Run()
	if ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	return fault.Wrap(err, "running pg_ctl %s", action)
}

// failed reports whether err means that pg_ctl ran and did not succeed.
func failed(err error) bool {
	_, ok := errors.AsType[*exec.ExitError](err)
	return ok
}

// start runs Postgres and waits until it accepts connections.
func (c *Cluster) start(ctx context.Context) error {
	if err := c.findPrograms(ctx); err != nil {
		return err
	}
	c.config.Progress(StageStarting)
	began := time.Now()
	// Prefer the earlier port: the pools of other processes that lost a crashed Postgres reconnect there.
	port := c.record.Port
	for attempt := 1; ; attempt++ {
		if port == 0 {
			var err error
			if port, err = freePort(); err != nil {
				return err
			}
		}
		log, text := newestLog(c.data)
		err := c.control(ctx, "start", "-t", "86400", // ctx is the bound
			"-o", fmt.Sprintf("-c listen_addresses=127.0.0.1 -c port=%d -c unix_socket_directories=", port))
		if err == nil {
			var adopted bool
			if adopted, err = c.adopt(ctx); adopted {
				c.log.Info("started Postgres", "port", c.port, "took", time.Since(began))
				return nil
			}
		}
		if err != nil && !failed(err) {
			return fmt.Errorf("starting Postgres: %w", err)
		}
		output := c.startOutput(ctx, log, len(text))
		transient := strings.Contains(output, "pre-existing shared memory block") ||
			strings.Contains(output, "postmaster.pid")
		switch {
		case attempt < startAttempts && taken(port):
			port = 0
		case attempt < startAttempts && transient:
			// The last processes of a killed Postgres are still ending, a host that was killed had just started a
			// Postgres, or the file is stale.
			select {
			case <-ctx.Done():
				return context.Cause(ctx)
			case <-time.After(startPause):
			}
			if adopted, err := c.adopt(ctx); adopted || err != nil {
				return err
			}
			if err := c.removeStale(); err != nil {
				return err
			}
		default:
			return fmt.Errorf("starting Postgres: it exited immediately: %s", output)
		}
	}
}

// adopt waits until the Postgres of the cluster accepts connections, for as long as it is starting, recovering or
// stopping. It returns false if none runs.
func (c *Cluster) adopt(ctx context.Context) (adopted bool, err error) {
	var failing time.Time
	err = poll(ctx, func() (bool, error) {
		pid, port, err := running(c.data)
		if err != nil || pid == 0 {
			return true, err
		}
		if port == 0 {
			return false, nil // not written yet
		}
		c.port = port
		err = c.connect(ctx)
		if err == nil {
			adopted = true
			return true, nil
		}
		refusal, _ := errors.AsType[*pgconn.PgError](err)
		switch {
		case refusal != nil && refusal.Code == "57P03": // cannot_connect_now: starting, recovering or stopping
			failing = time.Time{}
			return false, nil
		case failing.IsZero():
			failing = time.Now()
		}
		if rejected(err) || time.Since(failing) > answerBound {
			return false, fmt.Errorf("connecting to Postgres (process %d, port %d): %w", pid, port, err)
		}
		return false, nil
	})
	return adopted, err
}

// connect checks that the Postgres on the port is the one of the cluster, and creates the database if it is missing.
func (c *Cluster) connect(ctx context.Context) (err error) {
	ctx, cancel := context.WithTimeout(ctx, connectBound)
	defer cancel()
	config, err := pgx.ParseConfig(c.urlOf("postgres"))
	if err != nil {
		return err
	}
	// Another program on the port must not learn the password by asking for it in clear text.
	config.RequireAuth = "scram-sha-256"
	conn, err := pgx.ConnectConfig(ctx, config)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, conn.Close(ctx)) }()
	var data string
	var exists bool
	err = conn.QueryRow(ctx, `SELECT current_setting('data_directory'),
		EXISTS (SELECT FROM pg_database WHERE datname = $1)`, Name).Scan(&data, &exists)
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

// rejected reports whether Postgres refused the credentials, which waiting cannot change (PostgreSQL error class 28).
func rejected(err error) bool {
	refusal, ok := errors.AsType[*pgconn.PgError](err)
	return ok && strings.HasPrefix(refusal.Code, "28")
}

// stop ends the Postgres of the cluster, if one runs, and waits until it is gone: a fast shutdown, then an immediate
// one. If ctx ends first, the shutdown continues by itself.
func (c *Cluster) stop(ctx context.Context) error {
	for _, shutdown := range []struct{ mode, seconds string }{{"fast", fastSeconds}, {"immediate", immediateSeconds}} {
		pid, _, err := running(c.data)
		if err != nil || pid == 0 {
			return err
		}
		err = c.control(ctx, "stop", "-m", shutdown.mode, "-t", shutdown.seconds)
		if err == nil {
			// pg_ctl waits for postmaster.pid to disappear, which happens a moment before the process ends.
			err = poll(ctx, func() (bool, error) { return !isPostmaster(pid, c.data), nil })
		}
		if !failed(err) {
			return err
		}
	}
	return fmt.Errorf("stopping Postgres: it still runs in %s, %s s after an immediate shutdown", c.data,
		immediateSeconds)
}

// running returns the process number and the port of the Postgres that runs in the folder data. The number is 0 if
// none runs, the port is 0 until Postgres has written it.
func running(data string) (pid, port int, err error) {
	text, err := os.ReadFile(pidFile(data))
	if errors.Is(err, fs.ErrNotExist) {
		return 0, 0, nil
	}
	if err != nil {
		return 0, 0, fmt.Errorf("looking for a running Postgres: %w", err)
	}
	pid, port = parsePIDFile(string(text))
	if pid == 0 || !isPostmaster(pid, data) {
		return 0, 0, nil
	}
	return pid, port, nil
}

// pidFile returns the path of the file in which the Postgres of the folder data describes itself.
func pidFile(data string) string { return filepath.Join(data, "postmaster.pid") }

// parsePIDFile returns the process number (line 1) and the port (line 4) of a postmaster.pid (the Postgres source's
// src/include/utils/pidfile.h). A missing or malformed number is 0, and so is the negative one of a standalone backend
// such as initdb's.
func parsePIDFile(text string) (pid, port int) {
	lines := append(strings.Split(text, "\n"), "", "", "")
	number := func(line string) int {
		n, err := strconv.ParseInt(strings.TrimSpace(line), 10, 32)
		if err != nil {
			return 0
		}
		return max(int(n), 0)
	}
	return number(lines[0]), number(lines[3])
}

// removeStale removes a postmaster.pid that a machine's crash left empty, or whose number now belongs to another
// program: Postgres would not start with either. Postgres itself replaces the file of a process that is gone, after
// checking that no other process still uses its shared memory.
func (c *Cluster) removeStale() error {
	text, err := os.ReadFile(pidFile(c.data))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	pid, _ := parsePIDFile(string(text))
	if err == nil && pid > 0 && (isPostmaster(pid, c.data) || errors.Is(syscall.Kill(pid, 0), syscall.ESRCH)) {
		return nil
	}
	if err == nil {
		c.log.Warn("removing the postmaster.pid of a Postgres that ended without removing it", "pid", pid)
		err = os.Remove(pidFile(c.data))
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("removing a stale postmaster.pid: %w", err)
	}
	return nil
}

// freePort returns a port of 127.0.0.1 that no program listens on.
func freePort() (int, error) {
	listener, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		return 0, fmt.Errorf("looking for a free port: %w", err)
	}
	return listener.Addr().(*net.TCPAddr).Port, listener.Close()
}

// taken reports whether a program listens on the port of 127.0.0.1.
func taken(port int) bool {
	listener, err := net.Listen("tcp4", "127.0.0.1:"+strconv.Itoa(port))
	if err != nil {
		return true
	}
	_ = listener.Close()
	return false
}

// sameFile reports whether both paths lead to the same folder.
func sameFile(a, b string) bool {
	first, err := os.Stat(a)
	if err != nil {
		return false
	}
	second, err := os.Stat(b)
	return err == nil && os.SameFile(first, second)
}
