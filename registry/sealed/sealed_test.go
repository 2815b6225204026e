package sealed_test

import (
	"bytes"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"assay/registry/expect"
	"assay/registry/sealed"
)

var key = bytes.Repeat([]byte{7}, 32)

const (
	limit   = 1000
	content = "what this host wrote"
)

func open(t *testing.T, dir string, key []byte) *sealed.Folder {
	t.Helper()
	return expect.Value(sealed.Open(dir, key, limit))(t)
}

func write(t *testing.T, f *sealed.Folder, name, content string) {
	t.Helper()
	expect.NoError(t, f.Write(name, []byte(content)))
}

func wantContent(t *testing.T, f *sealed.Folder, name, want string) {
	t.Helper()
	got, ok := f.Read(name)
	expect.That(t, ok && string(got) == want, "%s has %q, %t, want %q", name, got, ok, want)
}

func names(t *testing.T, dir string) string {
	t.Helper()
	entries := expect.Value(os.ReadDir(dir))(t)
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return strings.Join(names, " ")
}

func TestReadReturnsWhatWasWritten(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "deeper", "cache")
	f := open(t, dir, key)
	_, ok := f.Read("a")
	expect.That(t, !ok, "a file that was never written was read")
	write(t, f, "a", content)
	write(t, f, "empty", "")
	for range 2 {
		wantContent(t, f, "a", content)
		wantContent(t, f, "empty", "")
		f = open(t, dir, key) // after a restart too
	}
	write(t, f, "a", "again")
	wantContent(t, f, "a", "again")
	expect.Equal(t, "files", names(t, dir), "a.sealed empty.sealed")
	for path, want := range map[string]fs.FileMode{dir: 0o700, filepath.Join(dir, "a.sealed"): 0o600} {
		if info, err := os.Stat(path); err != nil || info.Mode().Perm() != want {
			t.Errorf("%s has mode %v, %v, want %o", path, info.Mode(), err, want)
		}
	}
}

// A file that is not as Write left it under its name is not read, and removed.
func TestForeignFilesAreNotRead(t *testing.T) {
	t.Parallel()
	flip := func(at int) func(*testing.T, string) {
		return func(t *testing.T, file string) {
			data := expect.Value(os.ReadFile(file))(t)
			data[(at+len(data))%len(data)] ^= 1
			expect.NoError(t, os.WriteFile(file, data, 0o600))
		}
	}
	expect.Each(t, map[string]func(t *testing.T, file string){
		"bit flip in the content": flip(-1),
		"bit flip in the seal":    flip(0),
		"truncated by a byte": func(t *testing.T, file string) {
			expect.NoError(t, os.Truncate(file, expect.Value(os.Stat(file))(t).Size()-1))
		},
		"truncated in the seal": func(t *testing.T, file string) { expect.NoError(t, os.Truncate(file, 5)) },
		"empty":                 func(t *testing.T, file string) { expect.NoError(t, os.Truncate(file, 0)) },
		"longer than the limit": func(t *testing.T, file string) { expect.NoError(t, os.Truncate(file, limit+1)) },
		"without a seal": func(t *testing.T, file string) {
			expect.NoError(t, os.WriteFile(file, []byte(content), 0o600))
		},
		"sealed under another name": func(t *testing.T, file string) {
			other := open(t, filepath.Join(t.TempDir(), "other"), key)
			private := expect.Value(other.Private())(t)
			write(t, other, "other", content)
			expect.NoError(t, os.Rename(filepath.Join(filepath.Dir(private), "other.sealed"), file))
		},
		"sealed with another key": func(t *testing.T, file string) {
			write(t, open(t, filepath.Dir(file), []byte("another")), "a", content)
		},
		"symbolic link": func(t *testing.T, file string) {
			// Others may be able to write the target.
			outside := filepath.Join(t.TempDir(), "moved")
			expect.NoError(t, os.Rename(file, outside))
			expect.NoError(t, os.Symlink(outside, file))
		},
		"folder": func(t *testing.T, file string) {
			expect.NoError(t, os.Remove(file))
			expect.NoError(t, os.MkdirAll(filepath.Join(file, "deeper"), 0o700))
		},
	}, func(t *testing.T, alter func(t *testing.T, file string)) {
		dir := filepath.Join(t.TempDir(), "cache")
		f := open(t, dir, key)
		write(t, f, "a", content)
		alter(t, filepath.Join(dir, "a.sealed"))
		got, ok := f.Read("a")
		expect.That(t, !ok, "read %q", got)
		expect.Equal(t, "files", names(t, dir), "")
		write(t, f, "a", content)
		wantContent(t, f, "a", content)
	})
}

func TestOpenRemovesWhatIsNotSealed(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "cache")
	f := open(t, dir, key)
	write(t, f, "kept", content)
	recent, abandoned := expect.Value(f.Private())(t), expect.Value(f.Private())(t)
	longAgo := time.Now().Add(-2 * time.Hour)
	expect.NoError(t, os.WriteFile(filepath.Join(abandoned, "code"), nil, 0o600))
	expect.NoError(t, os.Chtimes(abandoned, longAgo, longAgo))
	expect.NoError(t, os.MkdirAll(filepath.Join(dir, "wazero-dev-amd64-linux"), 0o700))
	expect.NoError(t, os.WriteFile(filepath.Join(dir, "wazero-dev-amd64-linux", "code.mac"), nil, 0o600))
	expect.NoError(t, os.WriteFile(filepath.Join(dir, "layer.wasm"), nil, 0o600))
	f = open(t, dir, key)
	expect.Equal(t, "files", names(t, dir), "kept.sealed "+filepath.Base(recent))
	wantContent(t, f, "kept", content)
}

// The files that were not used for the longest time go first.
func TestSizeIsLimited(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "cache")
	f, text := open(t, dir, key), strings.Repeat("x", limit/4)
	age := func(name string, hours time.Duration) {
		at := time.Now().Add(-hours * time.Hour)
		expect.NoError(t, os.Chtimes(filepath.Join(dir, name+".sealed"), at, at))
	}
	for name, hours := range map[string]time.Duration{"a": 3, "b": 2, "c": 1} {
		write(t, f, name, text)
		age(name, hours)
	}
	wantContent(t, f, "a", text) // uses it
	write(t, f, "d", text)
	expect.Equal(t, "files", names(t, dir), "a.sealed c.sealed d.sealed")
	age("d", 9)
	write(t, f, "huge", strings.Repeat("x", limit)) // the latest file stays, even alone
	expect.Equal(t, "files", names(t, dir), "huge.sealed")
}

func TestUnusableFolders(t *testing.T) {
	t.Parallel()
	expect.Each(t, map[string]func(t *testing.T, dir string){
		"accessible to others": func(t *testing.T, dir string) {
			expect.NoError(t, os.Mkdir(dir, 0o700))
			expect.NoError(t, os.Chmod(dir, 0o750))
		},
		"a file":          func(t *testing.T, dir string) { expect.NoError(t, os.WriteFile(dir, nil, 0o600)) },
		"a symbolic link": func(t *testing.T, dir string) { expect.NoError(t, os.Symlink(t.TempDir(), dir)) },
	}, func(t *testing.T, prepare func(t *testing.T, dir string)) {
		dir := filepath.Join(t.TempDir(), "cache")
		prepare(t, dir)
		expect.Failure(t, expect.ErrorOf(sealed.Open(dir, key, limit)), "the folder was opened")
	})
	expect.Failure(t, expect.ErrorOf(sealed.Open(t.TempDir(), nil, limit)), "a folder was opened without a key")
}

func TestFolderRemovedMeanwhile(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "cache")
	f := open(t, dir, key)
	expect.NoError(t, os.RemoveAll(dir))
	expect.Error(t, "writing", f.Write("a", nil), fs.ErrNotExist)
	_, ok := f.Read("a")
	expect.That(t, !ok, "a file was read")
}

func TestConcurrentUse(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "cache")
	var wg sync.WaitGroup
	for range 4 {
		f := open(t, dir, key)
		wg.Go(func() {
			for range 20 {
				expect.Error(t, "error", f.Write("a", []byte(content)), nil)
				wantContent(t, f, "a", content)
			}
		})
	}
	wg.Wait()
}
