//go:build linux || darwin

package postgres

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// programs are the ones that the package runs. A folder that lacks one, such as a client's, is not usable.
var programs = []string{"postgres", "initdb", "pg_ctl"}

// search describes where to look for Postgres. The zero value looks at the machine's installed versions.
type search struct {
	folders    []string // tried in order; nil: the folders of PATH, then those that packages use
	cache      string   // folder of downloaded versions; "": there are none
	repository string   // base URL of the downloads; "": the library's default
	major      int      // the only acceptable major version, set for an existing cluster; 0: OldestMajor or later
	offline    bool     // use the cache but download nothing
	announce   func()   // called before a download begins; may be nil
	account    *account // must be able to run the programs
}

// binaries returns the folder that holds the programs, downloading them into the cache if the machine has none. It
// fails with ErrNotInstalled if no Postgres can be found or downloaded, and with another error if only other versions
// are installed.
func (s search) binaries(ctx context.Context) (dir string, err error) {
	var others []string
	// If a supported version is installed, the administrator has chosen the versions, so nothing is downloaded.
	download := s.cache != "" && !s.offline
	for _, dir := range s.candidates(ctx) {
		major, err := s.majorOf(ctx, dir)
		switch {
		case err != nil:
			others = append(others, fmt.Sprintf("%s (%v)", dir, err))
		case major == s.major, s.major == 0 && major >= OldestMajor:
			return dir, nil
		default:
			others = append(others, fmt.Sprintf("%d in %s", major, dir))
			download = download && major < OldestMajor
		}
	}
	if ctx.Err() != nil {
		return "", fmt.Errorf("looking for Postgres: %w", context.Cause(ctx))
	}
	wanted, found := fmt.Sprintf("Postgres %d or later", OldestMajor), ""
	if s.major != 0 {
		wanted = fmt.Sprintf("Postgres %d", s.major)
	}
	if len(others) > 0 {
		found = ", only " + strings.Join(others, ", ")
	}
	err = ErrNotInstalled
	if download {
		if dir, err = s.download(ctx); err == nil {
			return dir, nil
		}
		err = fmt.Errorf("%w (%w)", err, ErrNotInstalled)
	} else if s.major != 0 && found != "" {
		return "", fmt.Errorf("looking for %s: PATH and the usual folders have none%s", wanted, found)
	}
	return "", fmt.Errorf("looking for Postgres: PATH and the usual folders have no %s%s: %w: %s",
		wanted, found, err, advice)
}

// candidates lists the folders that hold all programs, in order of preference, each once under its real name.
func (s search) candidates(ctx context.Context) (dirs []string) {
	folders := s.folders
	if folders == nil {
		folders = append(filepath.SplitList(os.Getenv("PATH")), packageFolders()...)
	}
	if s.cache != "" {
		folders = append(slices.Clip(folders), newestFirst(s.cache, "[0-9]*/bin")...)
	}
	for _, folder := range folders {
		// A relative entry of PATH would depend on where the host was started.
		if !filepath.IsAbs(folder) {
			continue
		}
		// Distributions link single programs onto PATH; the others are next to the link's target.
		program, err := filepath.EvalSymlinks(filepath.Join(folder, "postgres"))
		if dir := filepath.Dir(program); err == nil && !slices.Contains(dirs, dir) && s.usable(ctx, dir) {
			dirs = append(dirs, dir)
		}
	}
	return dirs
}

// usable reports whether the account can run all programs in dir.
func (s search) usable(ctx context.Context, dir string) bool {
	return !slices.ContainsFunc(programs, func(program string) bool {
		return !s.account.executes(ctx, filepath.Join(dir, program))
	})
}

// packageFolders lists where packages install Postgres without linking it onto PATH.
func packageFolders() (dirs []string) {
	for _, pattern := range []string{
		"usr/lib/postgresql/*/bin",         // Debian, Ubuntu
		"usr/pgsql-*/bin",                  // the Postgres project's packages for Red Hat
		"opt/homebrew/opt/postgresql*/bin", // Homebrew on Apple silicon
		"usr/local/opt/postgresql*/bin",    // Homebrew on Intel
		"usr/local/pgsql/bin",              // make install
	} {
		dirs = append(dirs, newestFirst("/", pattern)...)
	}
	return dirs
}

// versionInPath matches the first number of the last path element that has one.
var versionInPath = regexp.MustCompile(`(\d+)[\d.]*\D*$`)

// newestFirst lists the paths under root that match the pattern, the highest version first.
func newestFirst(root, pattern string) []string {
	dirs, _ := fs.Glob(os.DirFS(root), pattern) // fails only on a malformed pattern
	for i := range dirs {
		dirs[i] = filepath.Join(root, dirs[i])
	}
	version := func(dir string) int {
		if match := versionInPath.FindStringSubmatch(dir); match != nil {
			n, _ := strconv.Atoi(match[1])
			return n
		}
		return 0
	}
	slices.SortStableFunc(dirs, func(a, b string) int { return cmp.Compare(version(b), version(a)) })
	return dirs
}

// versionLine matches the output of postgres --version: "postgres (PostgreSQL) 15.13 (Debian ...)", "... 19beta1".
var versionLine = regexp.MustCompile(`\(PostgreSQL\) (\d+)`)

// majorOf returns the major version of the postgres program in dir.
func (s search) majorOf(ctx context.Context, dir string) (int, error) {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	text, err := s.account.command(ctx, filepath.Join(dir, "postgres"), "--version").Output()
	if err != nil {
		return 0, fmt.Errorf("reading its version: %w", err)
	}
	match := versionLine.FindSubmatch(text)
	if match == nil {
		return 0, errors.New("reading its version: it is not a Postgres")
	}
	return strconv.Atoi(string(match[1]))
}
