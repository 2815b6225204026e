package postgrestest_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"assay/host/store/postgres/postgrestest"
	"assay/registry/expect"
)

func TestMain(m *testing.M) {
	postgrestest.Prepare(func(ctx context.Context, address string) error {
		conn, err := pgx.Connect(ctx, address)
		if err != nil {
			return err
		}
		// The connection stays open on purpose: copying must not fail because of it.
		_, err = conn.Exec(ctx, "CREATE TABLE prepared (n int); INSERT INTO prepared VALUES (1)")
		return err
	})
	os.Exit(postgrestest.Main(m))
}

func TestDatabasesAreSeparateCopies(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"one", "two", "three", "four"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			url := postgrestest.Database(t)
			// A subtest that shared the database would count 2.
			expect.Equal(t, "prepared rows", ask(t, url, "SELECT count(*) FROM prepared"), 1)
			ask(t, url, "INSERT INTO prepared VALUES (2) RETURNING n")
		})
	}
}

func TestDatabaseIsDroppedWithItsTest(t *testing.T) {
	t.Parallel()
	var gone string
	var left *pgx.Conn
	t.Run("user", func(t *testing.T) {
		gone = postgrestest.Database(t)
		// An open connection must not prevent dropping the database.
		left = expect.Value(pgx.Connect(t.Context(), gone))(t)
	})
	if left != nil {
		_ = left.Close(t.Context())
	}
	if gone == "" {
		t.Skip("this test needs Postgres")
	}
	if conn, err := pgx.Connect(t.Context(), gone); err == nil {
		_ = conn.Close(t.Context())
		t.Fatal("the database of an ended test still exists")
	}
}

// childEnv makes TestKilledProcessLeavesNothing use a database until standard input ends.
const childEnv = "ASSAY_POSTGRESTEST_CHILD"

func TestKilledProcessLeavesNothing(t *testing.T) {
	t.Parallel()
	if os.Getenv(childEnv) != "" {
		fmt.Println(postgrestest.Database(t))
		_, _ = io.Copy(io.Discard, os.Stdin)
		return
	}
	if os.Getenv("ASSAY_TEST_DATABASE_URL") != "" {
		t.Skip("this test needs a server of its own")
	}
	postgrestest.Database(t) // skips without Postgres
	temporary := expect.Value(os.MkdirTemp("", "assay-killed-"))(t)
	expect.NoError(t, os.Chmod(temporary, 0o711))
	defer func() { _ = os.RemoveAll(temporary) }()

	first, second := startChild(t, temporary), startChild(t, temporary)
	_ = first.cmd.Process.Kill()
	_ = first.cmd.Wait()
	ask(t, second.url, "SELECT 1") // the server goes on for the other process
	_ = second.cmd.Process.Kill()
	_ = second.cmd.Wait()
	wantStopped(t, second.url)

	third := startChild(t, temporary)
	expect.Equal(t, "databases of tests, of running processes",
		ask(t, third.url, "SELECT count(*) FROM pg_database WHERE starts_with(datname, 'assay_test_')"), 1)
	err := errors.Join(third.stdin.Close(), third.cmd.Wait())
	expect.Must(t, err == nil, "a process that uses what a killed one left: %v", err)
	wantStopped(t, third.url)
}

// child is another test process that uses a database.
type child struct {
	cmd   *exec.Cmd
	stdin io.Closer
	url   string
}

// startChild starts a process that shares a server with others of the same folder.
func startChild(t *testing.T, temporary string) child {
	t.Helper()
	c := child{cmd: exec.Command(os.Args[0], "-test.run=^TestKilledProcessLeavesNothing$")}
	c.cmd.Env = append(os.Environ(), childEnv+"=1", "TMPDIR="+temporary)
	c.stdin = expect.Value(c.cmd.StdinPipe())(t)
	stdout := expect.Value(c.cmd.StdoutPipe())(t)
	expect.NoError(t, c.cmd.Start())
	t.Cleanup(func() { _ = c.cmd.Process.Kill() })
	var err error
	c.url, err = bufio.NewReader(stdout).ReadString('\n')
	expect.Must(t, err == nil && strings.HasPrefix(c.url, "postgres://"), "the other process printed %q, %v", c.url,
		err)
	c.url = strings.TrimSpace(c.url)
	return c
}

// ask returns a number from the database at url.
func ask(t *testing.T, url, query string) (n int) {
	t.Helper()
	conn := expect.Value(pgx.Connect(t.Context(), url))(t)
	defer func() { _ = conn.Close(context.Background()) }()
	expect.NoError(t, conn.QueryRow(t.Context(), query).Scan(&n))
	return n
}

// wantStopped waits until nothing answers at url.
func wantStopped(t *testing.T, url string) {
	t.Helper()
	expect.Until(t, "the Postgres of test processes that ended to stop", func() bool {
		conn, err := pgx.Connect(t.Context(), url)
		if err == nil {
			_ = conn.Close(t.Context())
		}
		return err != nil
	})
}

func TestServerFromEnvironment(t *testing.T) {
	t.Parallel()
	const role = "assay_postgrestest"
	address := postgrestest.Database(t)
	conn := expect.Value(pgx.Connect(t.Context(), address))(t)
	defer func() { _ = conn.Close(context.Background()) }()
	const create = "DROP ROLE IF EXISTS " + role + "; CREATE ROLE " + role + " LOGIN CREATEDB PASSWORD 'other'"
	expect.Value(conn.Exec(t.Context(), create))(t)
	server := expect.Value(url.Parse(address))(t)
	server.User = url.UserPassword(role, "other")
	child := exec.Command(os.Args[0], "-test.run=^TestDatabases", "-test.v")
	child.Env = append(os.Environ(), "ASSAY_TEST_DATABASE_URL="+server.String())
	output, err := child.CombinedOutput()
	expect.Must(t, err == nil && strings.Contains(string(output), "--- PASS: TestDatabasesAreSeparateCopies/one"),
		"on the server of another process: %v\n%s", err, output)
	// Fails if the other process left a database of the role, such as its template.
	expect.Value(conn.Exec(t.Context(), "DROP ROLE "+role))(t)
}
