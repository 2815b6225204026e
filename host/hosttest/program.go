package hosttest

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"assay/host/installation"
	"assay/host/store/postgres/postgrestest"
	"assay/registry"
	"assay/registry/expect"
)

// sources are the files and folders of the repository that a host is built from.
var sources = []string{"docs", "documents.go", "go.mod", "go.sum", "host", "migrations", "plugins", "registry", "sdk"}

// noSources are folders within sources that no host is built from. Tests write to some of them.
var noSources = []string{"node_modules", "testdata", "build", "__pycache__"}

// program builds the assay command once for all test processes.
var program = sync.OnceValues(func() (string, error) {
	dir, err := sharedFolder()
	if err != nil {
		return "", err
	}
	name, flags := "assay", []string{}
	if RaceDetector {
		name, flags = "assay-race", []string{"-race"}
	}
	path := filepath.Join(dir, name)
	return path, once(path, func() error { return build(path, flags...) })
})

// sharedFolder returns the folder that all test processes of this version of the sources share. Reading the sources
// also makes go test run a package again when they change, though the package does not import them.
var sharedFolder = sync.OnceValues(func() (string, error) {
	root, err := root()
	if err != nil {
		return "", err
	}
	hash := sha256.New()
	for _, name := range sources {
		err := filepath.WalkDir(filepath.Join(root, name), func(path string, d fs.DirEntry, err error) error {
			switch {
			case err != nil:
				return err
			case d.IsDir() && (strings.HasPrefix(d.Name(), ".") || slices.Contains(noSources, d.Name())):
				return fs.SkipDir
			case !d.Type().IsRegular() || strings.HasSuffix(path, "_test.go"):
				return nil
			}
			text, err := os.ReadFile(path)
			fmt.Fprintf(hash, "%s %d\n", strings.TrimPrefix(path, root), len(text))
			hash.Write(text)
			return err
		})
		if err != nil {
			return "", fmt.Errorf("reading the sources: %w", err)
		}
	}
	parent := filepath.Join(os.TempDir(), fmt.Sprintf("assay-hosttest-%d", os.Getuid()))
	dir := filepath.Join(parent, hex.EncodeToString(hash.Sum(nil)[:8]))
	if err := os.MkdirAll(dir, 0o711); err != nil {
		return "", err
	}
	return dir, removeOlder(parent, dir)
})

// keepFor is how long the shared folder of other sources is kept.
const keepFor = 24 * time.Hour

// removeOlder removes the shared folders of other sources that were not used for a while.
func removeOlder(parent, but string) error {
	now := time.Now()
	if err := os.Chtimes(but, now, now); err != nil {
		return err
	}
	folders, err := os.ReadDir(parent)
	if err != nil {
		return err
	}
	for _, d := range folders {
		path := filepath.Join(parent, d.Name())
		if info, err := d.Info(); err == nil && path != but && now.Sub(info.ModTime()) > keepFor {
			if err := os.RemoveAll(path); err != nil {
				return err
			}
		}
	}
	return nil
}

// origin returns a data directory with nothing but the secret of all tests' databases.
func origin() (string, error) {
	folder, err := sharedFolder()
	if err != nil {
		return "", err
	}
	dir := filepath.Join(folder, "origin")
	return dir, once(dir, func() error {
		_, err := (&installation.Config{DataDir: dir}).CreateInstallation()
		return err
	})
}

// installed names the databases of this version of the sources, which have the same secret.
func installed() (string, error) {
	dir, err := origin()
	if err != nil {
		return "", err
	}
	secret, err := os.ReadFile(filepath.Join(dir, "secret"))
	sum := sha256.Sum256(append(secret, dir...))
	return hex.EncodeToString(sum[:8]), err
}

// install starts a host once, which fills the shared data directory and the database that all others are copied from:
// with the built-in layers and a lineup in force.
func install(ctx context.Context, database string) error {
	folder, err := sharedFolder()
	if err != nil {
		return err
	}
	dir := filepath.Join(folder, "data")
	if _, err := os.Stat(dir); err == nil { // another database was filled with it
		copied, err := os.MkdirTemp(folder, "data-")
		if err != nil {
			return err
		}
		defer os.RemoveAll(copied)
		if err := link(dir, copied, dataFiles...); err != nil {
			return err
		}
		return runOnce(ctx, folder, copied, database)
	}
	secret, err := origin()
	if err != nil {
		return err
	}
	return once(dir, func() error { return fill(ctx, dir, database, secret, "secret") })
}

// fill creates dir: it starts a host once with files of another data directory.
func fill(ctx context.Context, dir, database, from string, names ...string) error {
	next := dir + ".next"
	if err := errors.Join(os.RemoveAll(next), os.MkdirAll(next, 0o711), link(from, next, names...),
		runOnce(ctx, filepath.Dir(dir), next, database)); err != nil {
		return err
	}
	return os.Rename(next, dir)
}

// PrivateDir returns a data directory with a stopped private Postgres that is ready for hosts. It is a copy of one that
// a host created for all test processes.
func PrivateDir(t testing.TB) string {
	t.Helper()
	shared := SharedDir(t)
	path := filepath.Join(filepath.Dir(shared), "private")
	expect.NoError(t, once(path, func() error { return fill(t.Context(), path, "", shared, dataFiles...) }))
	dir := expect.Value(os.MkdirTemp("", "assay-private-"))(t)
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	LinkShared(t, dir, dataFiles...)
	// Postgres runs as a user that must be able to enter it. Each copy needs a port of its own.
	copying := exec.CommandContext(t.Context(), "sh", "-c", `set -e
		chmod 711 "$2"; cp -a "$1"/postgres* "$2"; sed -i '/"port"/d' "$2/postgres.json"`, "sh", path, dir)
	out, err := copying.CombinedOutput()
	expect.Must(t, err == nil, "copying a private Postgres: %v: %s", err, out)
	return dir
}

// runOnce starts a host and stops it when it is ready. Its program has no race detector, which would make compiling
// many times slower.
func runOnce(ctx context.Context, folder, dir, database string) error {
	path := filepath.Join(folder, "assay")
	if err := once(path, func() error { return build(path) }); err != nil {
		return err
	}
	cmd := Command(ctx, dir, database)
	cmd.Path, cmd.Err = path, nil
	h, err := begin(cmd)
	if err != nil {
		return err
	}
	if err := h.end(syscall.SIGTERM); err != nil {
		return err
	}
	if database == "" {
		return nil
	}
	return emptyFleet(ctx, database)
}

// emptyFleet removes the host that filled a database, in case a busy machine kept it from doing so itself: it would be
// a silent host in every copy.
func emptyFleet(ctx context.Context, database string) error {
	conn, err := pgx.Connect(ctx, database)
	if err != nil {
		return err
	}
	_, err = conn.Exec(ctx, "DELETE FROM hosts")
	return errors.Join(err, conn.Close(ctx))
}

// SharedDir returns a data directory with the layers of this checkout, built and compiled by a host that was started
// once for all test processes. It must not change.
func SharedDir(t testing.TB) string {
	t.Helper()
	dir := filepath.Join(expect.Value(sharedFolder())(t), "data")
	if _, err := os.Stat(dir); err != nil {
		postgrestest.Database(t) // fills it
	}
	return dir
}

// sameEngine gives the engine the version that it has in test processes, which do not know the versions of modules. It
// is part of the code cache's names, so without it every test process would compile all layers again.
const sameEngine = "-ldflags=-X=github.com/tetratelabs/wazero/internal/version.version=dev"

// build builds the assay command.
func build(path string, flags ...string) error {
	root, err := root()
	if err != nil {
		return err
	}
	next := path + ".next"
	cmd := exec.Command("go", append(append([]string{"build", "-o", next, sameEngine}, flags...), "./host")...)
	cmd.Dir = root
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("building the assay command: %w\n%s", err, out)
	}
	return os.Rename(next, path)
}

// once creates a file or folder, unless it exists. Only one process at a time does so.
func once(path string, do func() error) (err error) {
	lock, err := postgrestest.Lock(path+".lock", syscall.LOCK_EX)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, lock.Close()) }()
	if _, err := os.Stat(path); err == nil {
		return nil
	}
	return do()
}

// root returns the repository's folder.
func root() (string, error) {
	source, err := registry.FindSource(".", nil, nil)
	return source.Root, err
}

// Root returns the repository's folder.
func Root(t testing.TB) string {
	t.Helper()
	return expect.Value(root())(t)
}

// Program returns the assay command, built from this checkout, with the race detector if the tests have it.
func Program(t testing.TB) string {
	t.Helper()
	return expect.Value(program())(t)
}
