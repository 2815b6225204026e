//go:build linux || darwin

package postgres

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"assay/registry/expect"
)

// fakePrograms fills dir with scripts that report the version of Postgres and do nothing else.
func fakePrograms(t *testing.T, dir, version string) string {
	t.Helper()
	expect.NoError(t, os.MkdirAll(dir, 0o755))
	for _, name := range programs {
		script := fmt.Sprintf("#!/bin/sh\necho '%s (PostgreSQL) %s'\n", name, version)
		expect.NoError(t, writeProgram(filepath.Join(dir, name), []byte(script)))
	}
	return dir
}

func TestBinaries(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		installed    [][2]string // folder and version, in search order
		change       func(root string) error
		major        int
		want         string   // the folder, relative to the test's root; "" if the search fails
		wantErr      []string // parts of the error
		notInstalled bool     // the error is ErrNotInstalled
	}{
		"the first usable folder": {installed: [][2]string{{"16", "16.4"}, {"17", "17.0"}}, want: "16"},
		"too old":                 {installed: [][2]string{{"13", "13.23 (Debian 1)"}, {"14", "14.0"}}, want: "14"},
		"only too old": {installed: [][2]string{{"13", "13.23"}}, notInstalled: true,
			wantErr: []string{"Postgres 14 or later, only 13 in ", "apt-get install postgresql", "ASSAY_DATABASE_URL"}},
		"nothing installed": {notInstalled: true,
			wantErr: []string{"apt-get install postgresql", "ASSAY_DATABASE_URL"}},
		"an unreleased version": {installed: [][2]string{{"19", "19beta1"}}, want: "19"},
		"the cluster's version": {installed: [][2]string{{"17", "17.0"}, {"15", "15.9"}}, major: 15, want: "15"},
		"without the cluster's version": {installed: [][2]string{{"17", "17.0"}, {"16", "16.9"}}, major: 15,
			wantErr: []string{"Postgres 15", "only 17 in ", ", 16 in "}},
		"a link to one program": {installed: [][2]string{{"bin", "15.1"}}, want: "real",
			change: func(root string) error {
				return errors.Join(os.Rename(root+"/bin", root+"/real"), os.Mkdir(root+"/bin", 0o755),
					os.Symlink(root+"/real/postgres", root+"/bin/postgres"))
			}},
		"a folder without initdb": {installed: [][2]string{{"half", "16.0"}, {"both", "15.0"}}, want: "both",
			change: func(root string) error { return os.Remove(root + "/half/initdb") }},
		"a program that is not executable": {installed: [][2]string{{"bad", "16.0"}, {"good", "15.0"}}, want: "good",
			change: func(root string) error { return os.Chmod(root+"/bad/initdb", 0o644) }},
		"other programs with these names": {installed: [][2]string{{"odd", ""}, {"good", "15.0"}}, want: "good"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			root := reachable(t)
			folders := []string{filepath.Join(root, "missing")}
			for _, p := range test.installed {
				folders = append(folders, fakePrograms(t, filepath.Join(root, p[0]), p[1]))
			}
			if test.change != nil {
				expect.NoError(t, test.change(root))
			}
			got, err := search{folders: folders, major: test.major}.binaries(t.Context())
			if test.want != "" {
				holds(t, err == nil && got == filepath.Join(root, test.want), "binaries = %q, %v; want %s", got, err,
					test.want)
				return
			}
			mustHold(t, err != nil && errors.Is(err, ErrNotInstalled) == test.notInstalled,
				"binaries = %q, %v; want ErrNotInstalled: %t", got, err, test.notInstalled)
			for _, part := range test.wantErr {
				holds(t, strings.Contains(err.Error(), part), "binaries = %v, want an error with %q", err, part)
			}
		})
	}
}

func TestRelativeFoldersAreNotSearched(t *testing.T) {
	t.Parallel()
	here := expect.Value(os.Getwd())(t)
	relative := expect.Value(filepath.Rel(here, fakePrograms(t, filepath.Join(reachable(t), "16"), "16.0")))(t)
	_, err := search{folders: []string{relative, ""}}.binaries(t.Context())
	expect.Error(t, "binaries", err, ErrNotInstalled)
}

// When root runs the host, it must not choose programs that Postgres's user cannot reach.
func TestBinariesAreReachable(t *testing.T) {
	t.Parallel()
	needRoot(t)
	owner := expect.Value(unprivileged())(t)
	root := reachable(t)
	closed := fakePrograms(t, filepath.Join(root, "closed", "bin"), "17.0")
	expect.NoError(t, os.Chmod(filepath.Dir(closed), 0o700))
	open := fakePrograms(t, filepath.Join(root, "open", "bin"), "16.0")
	got, err := search{folders: []string{closed, open}, account: owner}.binaries(t.Context())
	holds(t, err == nil && got == open, "binaries = %s, %v; want %s", got, err, open)
}

func TestNewestFirst(t *testing.T) {
	t.Parallel()
	root := filepath.Join(t.TempDir(), "opt")
	want := []string{"postgresql@100", "postgresql@17", "postgresql@16", "postgresql@9.6", "postgresql"}
	for _, version := range slices.Sorted(slices.Values(want)) {
		expect.NoError(t, os.MkdirAll(filepath.Join(root, version, "bin"), 0o755))
	}
	var got []string
	for _, dir := range newestFirst(filepath.Join(root, "postgresql*", "bin")) {
		got = append(got, filepath.Base(filepath.Dir(dir)))
	}
	expect.NoDiff(t, "order", want, got)
}
