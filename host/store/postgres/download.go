//go:build linux || darwin

package postgres

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	embedded "github.com/fergusstrange/embedded-postgres"

	"assay/registry/fault"
)

// downloadBound limits a download, because the library does not.
const downloadBound = 10 * time.Minute

// release returns the library's release of a major version; 0 selects the newest.
func release(major int) (embedded.PostgresVersion, error) {
	releases := []embedded.PostgresVersion{embedded.V18, embedded.V17, embedded.V16, embedded.V15, embedded.V14}
	for _, r := range releases {
		if major == 0 || strings.HasPrefix(string(r), strconv.Itoa(major)+".") {
			return r, nil
		}
	}
	return "", fmt.Errorf("there is no download of Postgres %d", major)
}

// download puts Postgres into the cache and returns the folder with its programs. They appear there all at once: an
// interrupted download leaves only a folder that the next one removes.
func (s search) download(ctx context.Context) (string, error) {
	version, err := release(s.major)
	if err != nil {
		return "", err
	}
	if s.announce != nil {
		s.announce()
	}
	const prefix = "unpacking-"
	err = makeFolder(s.cache, 0o755)
	removeLeftovers(s.cache, prefix)
	work := ""
	if err == nil {
		work, err = os.MkdirTemp(s.cache, prefix)
	}
	if err != nil {
		return "", fmt.Errorf("making a folder for the download: %w", err)
	}
	ctx, cancel := context.WithTimeoutCause(ctx, downloadBound, fmt.Errorf("still running after %v", downloadBound))
	defer cancel()
	// The library cannot be interrupted: if ctx ends first, unpack finishes and cleans up in the background.
	done := make(chan error, 1)
	go func() {
		err := s.unpack(work, version)
		_ = os.RemoveAll(work)
		done <- err
	}()
	select {
	case err = <-done:
	case <-ctx.Done():
		err = fmt.Errorf("downloading it: %w", context.Cause(ctx))
	}
	if err != nil {
		return "", err
	}
	dir := filepath.Join(s.cache, string(version), "bin")
	if !s.usable(ctx, dir) {
		return "", fmt.Errorf("%s lacks one of the programs %s, or this user cannot run it", dir, programs)
	}
	if _, err := s.majorOf(ctx, dir); err != nil {
		return "", fmt.Errorf("running the downloaded %s: %w", filepath.Join(dir, "postgres"), err)
	}
	return dir, nil
}

// unpack downloads the release through the folder work into the cache.
//
// The library has no call that only downloads: Start also runs initdb (which refuses to run as root) and Postgres. A
// data folder that looks initialised makes it skip initdb. With that folder and port 0, Postgres cannot start. Start
// creates RuntimePath only after unpacking, which distinguishes a failed download from the expected failure later.
func (s search) unpack(work string, version embedded.PostgresVersion) (err error) {
	defer func() {
		// The library panics if its files disappear, for example when an operator clears the cache.
		if r := recover(); r != nil {
			err = fmt.Errorf("downloading it: %v", r)
		}
	}()
	unpacked, marker := filepath.Join(work, "programs"), filepath.Join(work, "runtime")
	data := filepath.Join(work, "data")
	major, _, _ := strings.Cut(string(version), ".")
	if err := errors.Join(os.Mkdir(data, 0o700),
		os.WriteFile(filepath.Join(data, "PG_VERSION"), []byte(major+"\n"), 0o600)); err != nil {
		return fmt.Errorf("preparing the download: %w", err)
	}
	config := embedded.DefaultConfig().Version(version).Port(0).StartTimeout(time.Second).Logger(io.Discard).
		CachePath(filepath.Join(work, "archive")).BinariesPath(unpacked).RuntimePath(marker).DataPath(data)
	if s.repository != "" {
		config = config.BinaryRepositoryURL(s.repository)
	}
	server := embedded.NewDatabase(config)
	startErr := server.Start()
	if startErr == nil {
		startErr = server.Stop()
	}
	if _, err := os.Stat(marker); err != nil {
		return fmt.Errorf("downloading it: %w", cmp.Or(startErr, err))
	}
	// The programs of an earlier download to this place are unusable, or this one would not be needed.
	home := filepath.Join(s.cache, string(version))
	err = errors.Join(openToAll(unpacked), os.RemoveAll(home))
	if err == nil {
		err = os.Rename(unpacked, home)
	}
	return fault.Wrap(err, "unpacking the download")
}

// openToAll lets every user read the tree and run its programs, regardless of this process's umask.
func openToAll(tree string) error {
	return filepath.WalkDir(tree, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.Type()&fs.ModeSymlink != 0 {
			return err
		}
		info, err := entry.Info()
		if err != nil {
			return err
		}
		mode := info.Mode().Perm() | 0o444
		if mode&0o100 != 0 {
			mode |= 0o111
		}
		return os.Chmod(path, mode)
	})
}

// removeLeftovers removes the files with the prefix that killed processes left in the folder. A file that cannot be
// removed now does no harm and is tried again next time.
func removeLeftovers(folder, prefix string) {
	entries, _ := os.ReadDir(folder)
	for _, entry := range entries {
		if strings.HasPrefix(entry.Name(), prefix) {
			_ = os.RemoveAll(filepath.Join(folder, entry.Name()))
		}
	}
}
