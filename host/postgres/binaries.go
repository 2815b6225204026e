//go:build linux || darwin

package postgres

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Search says where Binaries looks for Postgres. The zero value looks at what the machine has installed.
type Search struct {
	Folders    []string // tried in order; nil: the folders of PATH, then Debian's, Red Hat's, Homebrew's, the source's
	Cache      string   // where downloads are unpacked and found again; "": there are none
	Repository string   // base address of the downloads, a mirror's say; "": the library's default
	Major      int      // only this major version, which an existing cluster needs; 0: OldestMajor or any later
	Offline    bool     // look in Cache, and download nothing
	Download   func()   // told before a download begins; may be nil

	account *account
}

// Binaries returns the folder that holds the programs postgres and initdb, downloading them into Search.Cache when the
// machine has none. It fails with ErrNotInstalled when there is no Postgres to be had, and otherwise when there are
// only ones of other versions than Search.Major.
func Binaries(ctx context.Context, s Search) (dir string, err error) {
	var others []string
	// With a usable Postgres here, the machine's owner manages its versions: another one is theirs to install.
	download := s.Cache != "" && !s.Offline
	for _, dir := range s.candidates() {
		major, err := s.majorOf(ctx, dir)
		switch {
		case ctx.Err() != nil:
			return "", fmt.Errorf("looking for Postgres: %w", context.Cause(ctx))
		case err != nil:
			others = append(others, fmt.Sprintf("%s (%v)", dir, err))
		case major == s.Major, s.Major == 0 && major >= OldestMajor:
			return dir, nil
		default:
			others = append(others, fmt.Sprintf("%d in %s", major, dir))
			download = download && major < OldestMajor
		}
	}
	found := ""
	if len(others) > 0 {
		found = ", only " + strings.Join(others, ", ")
	}
	if download {
		dir, err := s.fetch(ctx)
		if err == nil {
			return dir, nil
		}
		return "", fmt.Errorf("looking for Postgres: PATH and the usual folders have no %s%s, and %w (%w): %s",
			s.wanted(), found, err, ErrNotInstalled, advice)
	}
	if s.Major != 0 && len(others) > 0 {
		return "", fmt.Errorf("looking for %s: PATH and the usual folders have none%s", s.wanted(), found)
	}
	return "", fmt.Errorf("looking for Postgres: PATH and the usual folders have no %s%s (%w): %s",
		s.wanted(), found, ErrNotInstalled, advice)
}

// wanted names the versions that would do.
func (s Search) wanted() string {
	if s.Major != 0 {
		return fmt.Sprintf("Postgres %d", s.Major)
	}
	return fmt.Sprintf("Postgres %d or later", OldestMajor)
}

// candidates lists folders that hold both programs, in order of preference, each once under its real name.
func (s Search) candidates() (dirs []string) {
	folders := s.Folders
	if folders == nil {
		folders = append(filepath.SplitList(os.Getenv("PATH")), usualFolders()...)
	}
	if s.Cache != "" {
		folders = append(slices.Clip(folders), newestFirst(filepath.Join(s.Cache, "[0-9]*", "bin"))...)
	}
	for _, folder := range folders {
		// A relative entry of PATH means another folder wherever the host is started.
		if !filepath.IsAbs(folder) {
			continue
		}
		// Distributions link single programs onto PATH; the others stand beside the real one.
		program, err := filepath.EvalSymlinks(filepath.Join(folder, "postgres"))
		if err != nil {
			continue
		}
		dir := filepath.Dir(program)
		if !slices.Contains(dirs, dir) && s.runs(dir, "postgres") && s.runs(dir, "initdb") {
			dirs = append(dirs, dir)
		}
	}
	return dirs
}

// runs says whether the account may run the program in dir.
func (s Search) runs(dir, program string) bool {
	info, err := os.Stat(filepath.Join(dir, program))
	if err != nil || !info.Mode().IsRegular() || !s.account.executes(info) {
		return false
	}
	enters, err := s.account.enters(dir)
	return err == nil && enters
}

// usualFolders lists where packages put Postgres without linking it onto PATH.
func usualFolders() (dirs []string) {
	for _, pattern := range []string{
		"/usr/lib/postgresql/*/bin",         // Debian, Ubuntu
		"/usr/pgsql-*/bin",                  // the Postgres project's packages for Red Hat
		"/opt/homebrew/opt/postgresql*/bin", // Homebrew on Apple silicon
		"/usr/local/opt/postgresql*/bin",    // Homebrew on Intel
		"/usr/local/pgsql/bin",              // make install
	} {
		dirs = append(dirs, newestFirst(pattern)...)
	}
	return dirs
}

// versionInPath finds the first number of the last path element that has any.
var versionInPath = regexp.MustCompile(`(\d+)[\d.]*\D*$`)

// newestFirst lists what matches the pattern, the highest version first.
func newestFirst(pattern string) []string {
	// Glob fails only on a malformed pattern, and these are constants apart from the cache's folder.
	dirs, _ := filepath.Glob(pattern)
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

// versionLine is what postgres --version prints: "postgres (PostgreSQL) 15.13 (Debian ...)", "... 19beta1".
var versionLine = regexp.MustCompile(`\(PostgreSQL\) (\d+)`)

// majorOf asks the postgres in dir for its major version.
func (s Search) majorOf(ctx context.Context, dir string) (int, error) {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	text, err := s.account.command(ctx, filepath.Join(dir, "postgres"), "--version").Output()
	if err != nil {
		return 0, fmt.Errorf("asking its version: %w", err)
	}
	match := versionLine.FindSubmatch(text)
	if match == nil {
		return 0, errors.New("asking its version: no answer that a Postgres gives")
	}
	return strconv.Atoi(string(match[1]))
}
