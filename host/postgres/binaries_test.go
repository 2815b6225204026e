//go:build linux || darwin

package postgres

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// fakePrograms puts programs into dir that say they are Postgres of the version, and do nothing.
func fakePrograms(t *testing.T, dir, version string, names ...string) string {
	t.Helper()
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	if names == nil {
		names = programs
	}
	for _, name := range names {
		script := fmt.Sprintf("#!/bin/sh\necho '%s (PostgreSQL) %s'\n", name, version)
		if err := os.WriteFile(filepath.Join(dir, name), []byte(script), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func TestBinaries(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		major int
		want  string   // the folder, from the test's root
		fails []string // or what the error says
		none  bool     // whether the error is ErrNotInstalled
		make  func(t *testing.T, root string) (folders []string)
	}{
		"the first usable folder wins": {
			want: "16",
			make: func(t *testing.T, root string) []string {
				return []string{root + "/nothing", fakePrograms(t, root+"/16", "16.4"),
					fakePrograms(t, root+"/17", "17.0")}
			},
		},
		"too old is passed over": {
			want: "14",
			make: func(t *testing.T, root string) []string {
				return []string{fakePrograms(t, root+"/13", "13.23 (Debian 13.23-1)"),
					fakePrograms(t, root+"/14", "14.0")}
			},
		},
		"only too old": {
			none: true, fails: []string{"Postgres 14 or later, only 13 in ", "apt-get install postgresql",
				"ASSAY_DATABASE_URL"},
			make: func(t *testing.T, root string) []string { return []string{fakePrograms(t, root+"/13", "13.23")} },
		},
		"no folder": {
			none: true, fails: []string{"apt-get install postgresql", "ASSAY_DATABASE_URL"},
			make: func(*testing.T, string) []string { return []string{} },
		},
		"an unreleased version": {
			want: "19",
			make: func(t *testing.T, root string) []string { return []string{fakePrograms(t, root+"/19", "19beta1")} },
		},
		"the existing cluster's version is preferred": {
			major: 15, want: "15",
			make: func(t *testing.T, root string) []string {
				return []string{fakePrograms(t, root+"/17", "17.0"), fakePrograms(t, root+"/15", "15.9")}
			},
		},
		"the existing cluster's version is missing": {
			major: 15, fails: []string{"Postgres 15", "only 17 in ", ", 16 in "},
			make: func(t *testing.T, root string) []string {
				return []string{fakePrograms(t, root+"/17", "17.0"), fakePrograms(t, root+"/16", "16.9")}
			},
		},
		"a link leads to both programs": {
			want: "real",
			make: func(t *testing.T, root string) []string {
				link(t, fakePrograms(t, root+"/real", "15.1")+"/postgres", root+"/bin/postgres")
				return []string{root + "/bin"}
			},
		},
		"a client's folder has no server": {
			want: "both",
			make: func(t *testing.T, root string) []string {
				return []string{fakePrograms(t, root+"/half", "16.0", "postgres"),
					fakePrograms(t, root+"/both", "15.0")}
			},
		},
		"a program is not executable": {
			want: "good",
			make: func(t *testing.T, root string) []string {
				bad := fakePrograms(t, root+"/bad", "16.0")
				if err := os.Chmod(bad+"/initdb", 0o644); err != nil {
					t.Fatal(err)
				}
				return []string{bad, fakePrograms(t, root+"/good", "15.0")}
			},
		},
		"another program of the name": {
			want: "good",
			make: func(t *testing.T, root string) []string {
				odd := fakePrograms(t, root+"/odd", "")
				return []string{odd, fakePrograms(t, root+"/good", "15.0")}
			},
		},
		"relative folders are not searched": {
			none: true, fails: []string{"ASSAY_DATABASE_URL"},
			make: func(t *testing.T, root string) []string {
				here, err := os.Getwd()
				if err != nil {
					t.Fatal(err)
				}
				relative, err := filepath.Rel(here, fakePrograms(t, root+"/16", "16.0"))
				if err != nil {
					t.Fatal(err)
				}
				return []string{relative, ""}
			},
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			root := reachable(t)
			got, err := search{folders: test.make(t, root), major: test.major}.binaries(t.Context())
			if test.want != "" && (err != nil || got != filepath.Join(root, test.want)) {
				t.Errorf("binaries = %q, %v; want %s", got, err, test.want)
			}
			if test.want == "" && err == nil {
				t.Errorf("binaries = %q, want an error", got)
			}
			for _, part := range test.fails {
				if err != nil && !strings.Contains(err.Error(), part) {
					t.Errorf("binaries = %v, want an error with %q", err, part)
				}
			}
			if errors.Is(err, ErrNotInstalled) != test.none {
				t.Errorf("binaries = %v; ErrNotInstalled is %t, want %t", err, !test.none, test.none)
			}
		})
	}
}

// TestBinariesAreReachable keeps root from choosing programs that the user it runs them as cannot reach.
func TestBinariesAreReachable(t *testing.T) {
	t.Parallel()
	needRoot(t)
	owner, err := unprivileged()
	if err != nil {
		t.Fatal(err)
	}
	root := reachable(t)
	closed := fakePrograms(t, filepath.Join(root, "closed", "bin"), "17.0")
	if err := os.Chmod(filepath.Dir(closed), 0o700); err != nil {
		t.Fatal(err)
	}
	entered := fakePrograms(t, filepath.Join(root, "open", "bin"), "16.0")
	got, err := search{folders: []string{closed, entered}, account: owner}.binaries(t.Context())
	if err != nil || got != entered {
		t.Errorf("binaries = %s, %v; want %s", got, err, entered)
	}
}

func link(t *testing.T, to, from string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(from), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(to, from); err != nil {
		t.Fatal(err)
	}
}

func TestNewestFirst(t *testing.T) {
	t.Parallel()
	root := filepath.Join(t.TempDir(), "opt")
	for _, version := range []string{"postgresql", "postgresql@9.6", "postgresql@16", "postgresql@100",
		"postgresql@17"} {
		if err := os.MkdirAll(filepath.Join(root, version, "bin"), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	var got []string
	for _, dir := range newestFirst(filepath.Join(root, "postgresql*", "bin")) {
		got = append(got, filepath.Base(filepath.Dir(dir)))
	}
	want := []string{"postgresql@100", "postgresql@17", "postgresql@16", "postgresql@9.6", "postgresql"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("order (-want +got):\n%s", diff)
	}
}
