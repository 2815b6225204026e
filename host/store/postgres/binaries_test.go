//go:build linux || darwin

package postgres

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
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
	type testCase struct {
		installed    [][2]string // folder and version, in search order
		change       func(root string) error
		major        int
		want         string   // the folder, relative to the test's root; "" if the search fails
		wantErr      []string // parts of the error
		notInstalled bool     // the error is ErrNotInstalled
	}
	expect.Each(t, map[string]testCase{
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
	}, func(t *testing.T, test testCase) {
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
			expect.That(t, err == nil && got == filepath.Join(root, test.want), "binaries = %q, %v; want %s", got,
				err, test.want)
			return
		}
		expect.Must(t, err != nil && errors.Is(err, ErrNotInstalled) == test.notInstalled,
			"binaries = %q, %v; want ErrNotInstalled: %t", got, err, test.notInstalled)
		for _, part := range test.wantErr {
			expect.That(t, strings.Contains(err.Error(), part), "binaries = %v, want an error with %q", err, part)
		}
	})
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
	expect.That(t, err == nil && got == open, "binaries = %s, %v; want %s", got, err, open)
}

func TestNewestFirst(t *testing.T) {
	t.Parallel()
	root := filepath.Join(t.TempDir(), "opt[1]")
	want := []string{"postgresql@100", "postgresql@17", "postgresql@16", "postgresql@9.6", "postgresql"}
	for _, version := range slices.Sorted(slices.Values(want)) {
		expect.NoError(t, os.MkdirAll(filepath.Join(root, version, "bin"), 0o755))
	}
	var got []string
	for _, dir := range newestFirst(root, "postgresql*/bin") {
		got = append(got, filepath.Base(filepath.Dir(dir)))
	}
	expect.NoDiff(t, "order", want, got)
}

// repository serves the archive for every version and system, at the library's paths. Without an archive it serves 404.
func repository(t *testing.T, archive []byte, downloads *atomic.Int32) string {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if archive == nil || !strings.HasSuffix(r.URL.Path, ".jar") {
			http.NotFound(w, r)
			return
		}
		downloads.Add(1)
		_, _ = w.Write(archive)
	}))
	t.Cleanup(server.Close)
	return server.URL
}

// jar returns an archive in the format that the library expects: a zip that contains a tar.xz of the programs.
func jar(t *testing.T, version string) []byte {
	t.Helper()
	var files bytes.Buffer
	packer := tar.NewWriter(&files)
	// Like the real one, this pg_ctl fails in the data folder that unpack prepares.
	for name, script := range map[string]string{
		"bin/pg_ctl": "#!/bin/sh\nexit 1\n", "bin/initdb": "#!/bin/sh\n",
		"bin/postgres": "#!/bin/sh\necho 'postgres (PostgreSQL) " + version + "'\n",
	} {
		// The mode that a restrictive umask leaves.
		header := &tar.Header{Typeflag: tar.TypeReg, Name: name, Mode: 0o700, Size: int64(len(script))}
		expect.NoError(t, packer.WriteHeader(header))
		expect.Value(packer.Write([]byte(script)))(t)
	}
	expect.NoError(t, packer.Close())
	var archive bytes.Buffer
	zipper := zip.NewWriter(&archive)
	expect.Value(expect.Value(zipper.Create("postgres.txz"))(t).Write(xz(files.Bytes())))(t)
	expect.NoError(t, zipper.Close())
	return archive.Bytes()
}

// xz wraps data in an .xz stream without compressing it (the .xz file format 1.2.1; LZMA2 chunks of type 1).
func xz(data []byte) []byte {
	var packed []byte
	for chunk := range slices.Chunk(data, 1<<16) {
		packed = append(packed, 1) // uncompressed, dictionary reset
		packed = binary.BigEndian.AppendUint16(packed, uint16(len(chunk)-1))
		packed = append(packed, chunk...)
	}
	packed = append(packed, 0)
	sealed := func(field []byte) []byte { return binary.LittleEndian.AppendUint32(field, crc32.ChecksumIEEE(field)) }
	padded := func(field []byte) []byte { return append(field, make([]byte, (4-len(field)%4)%4)...) }

	flags := []byte{0, 0} // no integrity check
	stream := append([]byte("\xfd7zXZ\x00"), flags...)
	stream = binary.LittleEndian.AppendUint32(stream, crc32.ChecksumIEEE(flags))
	header := sealed([]byte{2, 0, 0x21, 1, 0x16, 0, 0, 0}) // 12 bytes, one filter: LZMA2 with an 8 MiB dictionary
	stream = append(append(stream, header...), padded(slices.Clone(packed))...)
	index := []byte{0, 1}
	index = binary.AppendUvarint(index, uint64(len(header)+len(packed)))
	index = binary.AppendUvarint(index, uint64(len(data)))
	index = sealed(padded(index))
	stream = append(stream, index...)
	footer := append(binary.LittleEndian.AppendUint32(nil, uint32(len(index)/4-1)), flags...)
	stream = binary.LittleEndian.AppendUint32(stream, crc32.ChecksumIEEE(footer))
	return append(append(stream, footer...), "YZ"...)
}

func TestDownload(t *testing.T) {
	t.Parallel()
	owner := expect.Value(unprivileged())(t)
	var downloads atomic.Int32
	cache := filepath.Join(reachable(t), "postgres-bin")
	expect.NoError(t, os.MkdirAll(filepath.Join(cache, "unpacking-killed"), 0o700))
	announced := 0
	search := search{
		folders: []string{}, cache: cache, repository: repository(t, jar(t, "18.3"), &downloads), account: owner,
		announce: func() { announced++ },
	}
	want := filepath.Join(cache, "18.3.0", "bin")
	for _, when := range []string{"first", "again"} {
		expect.Equal(t, when, expect.Value(search.binaries(t.Context()))(t), want)
	}
	search.offline = true
	expect.Equal(t, "the earlier download, offline", expect.Value(search.binaries(t.Context()))(t), want)
	expect.That(t, downloads.Load() == 1 && announced == 1, "%d downloads and %d announcements, want one of each",
		downloads.Load(), announced)
	left, err := os.ReadDir(cache)
	expect.That(t, err == nil && len(left) == 1, "the cache contains %v (%v), want only the programs", left, err)
}

func TestDownloadFails(t *testing.T) {
	t.Parallel()
	var downloads atomic.Int32
	good := jar(t, "18.3")
	const closed = "http://127.0.0.1:1" // no program listens on this port
	for name, test := range map[string]struct {
		repository string
		major      int
		want       string
	}{
		"not found":       {repository(t, nil, &downloads), 0, "no version found"},
		"unreachable":     {closed, 0, "unable to connect"},
		"truncated":       {repository(t, good[:len(good)/2], &downloads), 0, "downloading it: "},
		"not a Postgres":  {repository(t, jar(t, "x"), &downloads), 0, "running the downloaded"},
		"unknown version": {closed, 12, "no download of Postgres 12"},
	} {
		_, err := search{
			folders: []string{}, cache: filepath.Join(reachable(t), "cache"), repository: test.repository,
			major: test.major,
		}.binaries(t.Context())
		expect.Error(t, name, err, ErrNotInstalled)
		for _, part := range []string{test.want, "apt-get install postgresql", "ASSAY_DATABASE_URL"} {
			expect.ErrorText(t, name, err, part)
		}
	}
}

// TestOpenWithoutPostgres tests a machine without Postgres and without a network.
func TestOpenWithoutPostgres(t *testing.T) {
	t.Parallel()
	var downloads atomic.Int32
	cfg := Config{Dir: reachable(t), folders: []string{}, repository: repository(t, nil, &downloads)}
	for _, offline := range []bool{false, true} {
		var stages []string
		cfg.Offline = offline
		cfg.Progress = func(stage string) { stages = append(stages, stage) }
		_, err := Open(t.Context(), cfg)
		expect.That(t, errors.Is(err, ErrNotInstalled) && strings.Contains(err.Error(), "apt-get install postgresql"),
			"offline %t: Open = %v", offline, err)
		expect.That(t, slices.Contains(stages, StageDownloading) != offline, "offline %t: stages %v", offline, stages)
	}
}

func TestDownloadStopsWithItsContext(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	respond := make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		cancel()
		<-respond
		http.NotFound(w, r)
	}))
	_, err := search{folders: []string{}, cache: filepath.Join(reachable(t), "cache"),
		repository: server.URL}.binaries(ctx)
	expect.Error(t, "binaries", err, context.Canceled)
	close(respond)
	server.Close()
}
