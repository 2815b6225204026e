package outage

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"assay/host/hosttest"
	"assay/registry/expect"
)

// demote starts Postgres again as a standby that replays what it has.
func (o *outages) demote(t *testing.T) {
	o.stop(t)
	signal := filepath.Join(o.folder(t), "standby.signal")
	expect.NoError(t, os.WriteFile(signal, nil, 0o644))
	o.start(t)
}

func (o *outages) promote(t *testing.T) { o.exec(t, "SELECT pg_promote()") }

func (o *outages) readOnly(on bool) func(*testing.T) {
	return func(t *testing.T) {
		o.exec(t, "SET default_transaction_read_only = off",
			fmt.Sprintf("ALTER SYSTEM SET default_transaction_read_only = %v", on), "SELECT pg_reload_conf()")
	}
}

// crash kills a process of Postgres, which makes it end all others and recover.
func (o *outages) crash(t *testing.T) {
	killed, other := o.connect(t), o.connect(t)
	expect.NoError(t, syscall.Kill(int(killed.PgConn().PID()), syscall.SIGKILL))
	every(t, "Postgres to notice", func() bool { return other.Ping(t.Context()) != nil })
	_, _ = killed.Close(t.Context()), other.Close(t.Context())
}

// recovered waits until Postgres has recovered.
func (o *outages) recovered(t *testing.T) {
	every(t, "Postgres to recover", func() bool {
		conn, err := pgx.Connect(t.Context(), o.direct)
		if err == nil {
			_ = conn.Close(t.Context())
		}
		return err == nil
	})
}

// signal sends a signal to all processes of Postgres.
func (o *outages) signal(s syscall.Signal) func(*testing.T) {
	return func(t *testing.T) {
		text := hosttest.ReadText(t, filepath.Join(o.folder(t), "postmaster.pid"))
		line, _, _ := strings.Cut(text, "\n")
		pid := expect.Value(strconv.Atoi(line))(t)
		children, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%d/children", pid, pid))
		if err != nil {
			t.Skip("this test needs Linux's /proc")
		}
		for _, child := range append(strings.Fields(string(children)), line) {
			pid := expect.Value(strconv.Atoi(child))(t)
			_ = syscall.Kill(pid, s) // it may have ended
		}
	}
}

func (o *outages) delay(d time.Duration) func(*testing.T) {
	return func(*testing.T) { o.proxy.Slow(d) }
}
func (o *outages) silence(on bool) func(*testing.T) { return func(*testing.T) { o.proxy.Silence(on) } }

// disk is a file system of the test's own, which holds a database. Without permission to mount one, a trigger fails
// with the error of a full disk.
type disk struct {
	o        *outages
	path     string // "": the trigger
	database string
}

func newDisk(t *testing.T, o *outages) *disk {
	d := &disk{o: o, database: "assay"}
	path := expect.Value(os.MkdirTemp("", "assay-disk-"))(t)
	t.Cleanup(func() { _ = os.RemoveAll(path) })
	if err := exec.Command("mount", "-t", "tmpfs", "-o", "size=256m", "tmpfs", path).Run(); err != nil {
		t.Logf("a trigger replaces the full disk, because mounting one failed: %v", err)
		return d
	}
	t.Cleanup(func() {
		_ = o.cluster.Close(context.Background())
		if err := syscall.Unmount(path, 0); err != nil {
			t.Error(err)
		}
	})
	d.path, d.database = path, "small"
	folder, err := os.Stat(o.folder(t))
	if err == nil {
		owner := folder.Sys().(*syscall.Stat_t)
		err = os.Chown(path, int(owner.Uid), int(owner.Gid))
	}
	expect.NoError(t, err)
	o.exec(t, fmt.Sprintf("CREATE TABLESPACE small LOCATION '%s'", path), "CREATE DATABASE small TABLESPACE small")
	return d
}

func (d *disk) fill(t *testing.T) {
	if d.path == "" {
		d.o.exec(t, `CREATE FUNCTION full_disk() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
				RAISE EXCEPTION 'could not extend file' USING ERRCODE = 'disk_full'; END $$`,
			"CREATE TRIGGER full_disk BEFORE INSERT ON audit_records FOR EACH STATEMENT EXECUTE FUNCTION full_disk()")
		return
	}
	file, err := os.Create(filepath.Join(d.path, "ballast"))
	expect.NoError(t, err)
	defer file.Close()
	for chunk := make([]byte, 1<<20); err == nil; {
		_, err = file.Write(chunk)
	}
}

func (d *disk) free(t *testing.T) {
	if d.path == "" {
		d.o.exec(t, "DROP FUNCTION full_disk CASCADE")
		return
	}
	expect.NoError(t, os.Remove(filepath.Join(d.path, "ballast")))
}
