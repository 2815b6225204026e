package postgrestest_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"assay/host/store/postgres/postgrestest"

	"github.com/jackc/pgx/v5"
)

func TestMain(m *testing.M) {
	postgrestest.Prepare(func(ctx context.Context, url string) error {
		conn, err := pgx.Connect(ctx, url)
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
			conn, err := pgx.Connect(t.Context(), postgrestest.Database(t))
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = conn.Close(context.Background()) }()
			var rows int
			err = conn.QueryRow(t.Context(), "SELECT count(*) FROM prepared").Scan(&rows)
			if err != nil || rows != 1 {
				t.Fatalf("prepared rows = %d, %v; want 1", rows, err)
			}
			// A subtest that shared the database would count 2.
			if _, err := conn.Exec(t.Context(), "INSERT INTO prepared VALUES (2)"); err != nil {
				t.Fatal(err)
			}
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
		var err error
		if left, err = pgx.Connect(t.Context(), gone); err != nil {
			t.Fatal(err)
		}
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

// childEnv makes TestKilledProcessLeavesNothing use a database until it is killed.
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
	temporary, err := os.MkdirTemp("", "assay-killed-")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = os.RemoveAll(temporary) }()
	if err := os.Chmod(temporary, 0o711); err != nil {
		t.Fatal(err)
	}
	child := exec.Command(os.Args[0], "-test.run=^TestKilledProcessLeavesNothing$")
	child.Env = append(os.Environ(), childEnv+"=1", "TMPDIR="+temporary)
	stdin, err := child.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = stdin.Close() }()
	stdout, err := child.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	url, err := bufio.NewReader(stdout).ReadString('\n')
	_ = child.Process.Kill()
	_ = child.Wait()
	if err != nil || !strings.HasPrefix(url, "postgres://") {
		t.Fatalf("the other process printed %q, %v", url, err)
	}
	bounded, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	ticker := time.NewTicker(10 * time.Millisecond)
	defer ticker.Stop()
	for {
		left, err := os.ReadDir(temporary)
		if err != nil {
			t.Fatal(err)
		}
		if len(left) == 0 {
			break
		}
		select {
		case <-ticker.C:
		case <-bounded.Done():
			t.Fatalf("a killed test process left %v", left)
		}
	}
	if conn, err := pgx.Connect(t.Context(), strings.TrimSpace(url)); err == nil {
		_ = conn.Close(t.Context())
		t.Error("the Postgres of a killed test process still runs")
	}
}

func TestServerFromEnvironment(t *testing.T) {
	t.Parallel()
	server := postgrestest.Database(t)
	child := exec.Command(os.Args[0], "-test.run=^TestDatabases", "-test.v")
	child.Env = append(os.Environ(), "ASSAY_TEST_DATABASE_URL="+server)
	output, err := child.CombinedOutput()
	if err != nil || !strings.Contains(string(output), "--- PASS: TestDatabasesAreSeparateCopies/one") {
		t.Fatalf("on the server of another process: %v\n%s", err, output)
	}
	conn, err := pgx.Connect(t.Context(), server)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close(context.Background()) }()
	var templates int
	const count = "SELECT count(*) FROM pg_database WHERE datname LIKE 'assay_template_%'"
	err = conn.QueryRow(t.Context(), count).Scan(&templates)
	if err != nil || templates != 1 {
		t.Errorf("%d templates (%v), want only this process's", templates, err)
	}
}
