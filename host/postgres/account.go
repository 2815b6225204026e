//go:build linux || darwin

package postgres

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"syscall"
	"time"
)

// account is the user that Postgres runs as, since it refuses to be root. The nil account is this process's own user.
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
		// macOS writes nobody as -2, which the kernel holds as the same 32 bits.
		uid, uidErr := strconv.ParseInt(found.Uid, 10, 64)
		gid, gidErr := strconv.ParseInt(found.Gid, 10, 64)
		if uidErr != nil || gidErr != nil || uint32(uid) == 0 {
			continue
		}
		return &account{uint32(uid), uint32(gid), name}, nil
	}
	return nil, errors.New("looking for a user to run Postgres as, which refuses to be root: this machine has neither " +
		"postgres nor nobody: run the host as an ordinary user, or set ASSAY_DATABASE_URL")
}

// accountOf returns the account for an existing cluster: Postgres insists on being the owner of its folder.
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
		return nil, fmt.Errorf("looking up the database's owner: %s belongs to root, whom Postgres refuses to be: "+
			"give it to another user with chown -R", data)
	case self != 0:
		return nil, fmt.Errorf("looking up the database's owner: %s belongs to user %d and this process is user %d: "+
			"run the host as that user or as root", data, owner.Uid, self)
	}
	return &account{owner.Uid, owner.Gid, "user " + strconv.Itoa(int(owner.Uid))}, nil
}

// enters says whether the account may pass through path and every folder above it, going by owners and mode bits.
// path must be absolute and free of symbolic links.
func (a *account) enters(path string) (bool, error) {
	if a == nil {
		return true, nil
	}
	for {
		info, err := os.Stat(path)
		if err != nil {
			return false, fmt.Errorf("checking whether %s may enter: %w", a.name, err)
		}
		if !a.executes(info) {
			return false, nil
		}
		parent := filepath.Dir(path)
		if parent == path {
			return true, nil
		}
		path = parent
	}
}

// executes says whether the account may enter a folder or run a file. The first class that matches decides
// (POSIX.1-2017 section 4.5): an owner without the bit is refused even where others have it. Started programs get no
// further groups.
func (a *account) executes(info os.FileInfo) bool {
	if a == nil {
		return info.Mode()&0o111 != 0
	}
	owner := info.Sys().(*syscall.Stat_t)
	switch {
	case owner.Uid == a.uid:
		return info.Mode()&0o100 != 0
	case owner.Gid == a.gid:
		return info.Mode()&0o010 != 0
	}
	return info.Mode()&0o001 != 0
}

// own gives a file or folder to the account.
func (a *account) own(path string) error {
	if a == nil {
		return nil
	}
	return os.Lchown(path, int(a.uid), int(a.gid))
}

// command prepares a Postgres program to run as the account: in a session of its own, so that a terminal's Ctrl-C
// passes it by, in a folder that every user can enter, and with nothing of this process's environment that could be a
// secret.
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
	// The session's number is the process's: what the program itself started ends with it.
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = 5 * time.Second
	return cmd
}
