//go:build linux || darwin

package postgres

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/user"
	"strconv"
	"syscall"
	"time"
)

// account is the user that Postgres runs as, because it refuses to run as root. A nil account is this process's user.
type account struct {
	uid, gid uint32
	name     string
}

// unprivileged returns the account for a new cluster: nil unless this process is root.
func unprivileged() (*account, error) {
	if os.Geteuid() != 0 {
		return nil, nil
	}
	for _, name := range []string{"postgres", "nobody"} {
		found, err := user.Lookup(name)
		if _, unknown := errors.AsType[user.UnknownUserError](err); unknown {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("looking up the user %s: %w", name, err)
		}
		// macOS reports nobody as -2, which the kernel stores as the same 32 bits.
		uid, uidErr := strconv.ParseInt(found.Uid, 10, 64)
		gid, gidErr := strconv.ParseInt(found.Gid, 10, 64)
		if uidErr != nil || gidErr != nil || uint32(uid) == 0 {
			continue
		}
		return &account{uint32(uid), uint32(gid), name}, nil
	}
	return nil, errors.New("choosing a user for Postgres, which refuses to run as root: there is neither a user " +
		"postgres nor nobody: run the host as an ordinary user, or set ASSAY_DATABASE_URL")
}

// accountOf returns the account for an existing cluster, the owner of its folder: Postgres accepts no other user.
func accountOf(data string) (*account, error) {
	info, err := os.Stat(data)
	if err != nil {
		return nil, fmt.Errorf("looking up the database's owner: %w", err)
	}
	owner := info.Sys().(*syscall.Stat_t)
	switch self := uint32(os.Geteuid()); {
	case owner.Uid == self && self != 0:
		return nil, nil
	case owner.Uid == 0:
		return nil, fmt.Errorf("looking up the database's owner: %s belongs to root, but Postgres refuses to run "+
			"as root: give it to another user with chown -R", data)
	case self != 0:
		return nil, fmt.Errorf("looking up the database's owner: %s belongs to user %d and this process is user %d: "+
			"run the host as that user or as root", data, owner.Uid, self)
	}
	return &account{owner.Uid, owner.Gid, "user " + strconv.Itoa(int(owner.Uid))}, nil
}

// executes reports whether the account can enter the folder, or run the program, at path.
func (a *account) executes(ctx context.Context, path string) bool {
	return a.command(ctx, "/bin/sh", "-c", `[ -x "$1" ]`, "sh", path).Run() == nil
}

// chown makes the account the owner of a file or folder.
func (a *account) chown(path string) error {
	if a == nil {
		return nil
	}
	return os.Lchown(path, int(a.uid), int(a.gid))
}

// command prepares a program to run as the account. The program runs in its own session, so that a terminal's Ctrl-C
// does not reach it, and in a folder that every user can enter. Its environment does not contain this process's
// secrets.
func (a *account) command(ctx context.Context, program string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Dir = "/"
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if a != nil {
		cmd.SysProcAttr.Credential = &syscall.Credential{Uid: a.uid, Gid: a.gid}
	}
	cmd.Env = []string{"LC_ALL=C", "TZ=UTC"}
	for _, name := range []string{"PATH", "LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH"} {
		if value, set := os.LookupEnv(name); set {
			cmd.Env = append(cmd.Env, name+"="+value)
		}
	}
	// The session has the process's number, so this also ends the processes that the program started.
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = 5 * time.Second
	return cmd
}
