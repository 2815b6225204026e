//go:build linux || darwin

package postgres

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	embedded "github.com/fergusstrange/embedded-postgres"
)

// fetchBound is how long a download of some 10 to 30 MB may take; the library itself knows no bound.
const fetchBound = 10 * time.Minute

// release returns the library's release of a major version; 0 asks for the newest.
func release(major int) (embedded.PostgresVersion, error) {
	releases := []embedded.PostgresVersion{embedded.V18, embedded.V17, embedded.V16, embedded.V15, embedded.V14}
	for _, r := range releases {
		if major == 0 || strings.HasPrefix(string(r), strconv.Itoa(major)+".") {
			return r, nil
		}
	}
	return "", fmt.Errorf("there is no download of Postgres %d", major)
}

// fetch downloads Postgres into the cache and returns the folder with its programs. They appear there all at once or
// not at all: a fetch that dies half-way leaves only a folder that the next one removes.
func (s Search) fetch(ctx context.Context) (string, error) {
	version, err := release(s.Major)
	if err != nil {
		return "", err
	}
	if s.Download != nil {
		s.Download()
	}
	if err := makeFolder(s.Cache, 0o755); err != nil {
		return "", fmt.Errorf("making a folder for the download: %w", err)
	}
	const prefix = "unpacking-"
	removeLeftovers(s.Cache, prefix)
	work, err := os.MkdirTemp(s.Cache, prefix)
	if err != nil {
		return "", fmt.Errorf("making a folder for the download: %w", err)
	}
	ctx, cancel := context.WithTimeoutCause(ctx, fetchBound, fmt.Errorf("no end after %v", fetchBound))
	defer cancel()
	// The library cannot be interrupted: when ctx ends first, it is left to run out, and tidies up after itself.
	done := make(chan error, 1)
	go func() {
		err := s.unpack(work, version)
		_ = os.RemoveAll(work) // before anyone is told: nothing is left when fetch returns
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
	dir := filepath.Join(s.Cache, string(version), "bin")
	if !s.runs(dir, "postgres") || !s.runs(dir, "initdb") {
		return "", fmt.Errorf("the download has no postgres and initdb that this user may run in %s", dir)
	}
	if _, err := s.majorOf(ctx, dir); err != nil {
		return "", fmt.Errorf("running the downloaded %s: %w", filepath.Join(dir, "postgres"), err)
	}
	return dir, nil
}

// unpack downloads the release by way of the folder work, and puts it into the cache.
//
// The library has no call that only downloads; Start goes on to run initdb (which refuses to be root) and Postgres. It
// is made to stop short: a data folder that looks initialised keeps it from initdb, and neither that nor port 0 is one
// that Postgres would start with. It makes RuntimePath only once everything is unpacked, which tells a Start that
// failed while downloading from one that failed afterwards, as it should.
func (s Search) unpack(work string, version embedded.PostgresVersion) (err error) {
	defer func() {
		// The library panics when its files vanish under it, as they do when someone clears the cache.
		if r := recover(); r != nil {
			err = fmt.Errorf("downloading it: %v", r)
		}
	}()
	programs, marker, data := filepath.Join(work, "programs"), filepath.Join(work, "runtime"),
		filepath.Join(work, "data")
	major, _, _ := strings.Cut(string(version), ".")
	if err := os.Mkdir(data, 0o700); err != nil {
		return fmt.Errorf("preparing the download: %w", err)
	}
	if err := os.WriteFile(filepath.Join(data, "PG_VERSION"), []byte(major+"\n"), 0o600); err != nil {
		return fmt.Errorf("preparing the download: %w", err)
	}
	config := embedded.DefaultConfig().Version(version).Port(0).StartTimeout(time.Second).Logger(io.Discard).
		CachePath(filepath.Join(work, "archive")).BinariesPath(programs).RuntimePath(marker).DataPath(data)
	if s.Repository != "" {
		config = config.BinaryRepositoryURL(s.Repository)
	}
	server := embedded.NewDatabase(config)
	failed := server.Start()
	if failed == nil {
		failed = server.Stop()
	}
	if _, err := os.Stat(marker); err != nil {
		return fmt.Errorf("downloading it: %w", cmp.Or(failed, err))
	}
	if err := openToAll(programs); err != nil {
		return fmt.Errorf("unpacking the download: %w", err)
	}
	home := filepath.Join(s.Cache, string(version))
	// What stands there was found unusable, or fetch would not have been called.
	if err := os.RemoveAll(home); err != nil {
		return fmt.Errorf("replacing an earlier download: %w", err)
	}
	if err := os.Rename(programs, home); err != nil {
		return fmt.Errorf("unpacking the download: %w", err)
	}
	return nil
}

// openToAll lets every user read the tree and run its programs, whatever this process's umask left of that.
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

// removeLeftovers removes what processes that were killed left in the folder under the prefix. What cannot be removed
// now is removed another time: it is in no one's way.
func removeLeftovers(folder, prefix string) {
	entries, _ := os.ReadDir(folder)
	for _, entry := range entries {
		if strings.HasPrefix(entry.Name(), prefix) {
			_ = os.RemoveAll(filepath.Join(folder, entry.Name()))
		}
	}
}
