package webhook_test

import (
	"bytes"
	"context"
	"encoding/base64"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"testing"
	"time"

	"go.uber.org/goleak"

	"assay/host/keyring"
	"assay/host/postgres/postgrestest"
	"assay/host/store"
)

// testRing holds the master secret of the tests' databases.
var testRing *keyring.Ring

func TestMain(m *testing.M) {
	if url := os.Getenv(hostDatabase); url != "" {
		os.Exit(runHost(url))
	}
	os.Exit(func() int {
		// Nothing listens there, so a request that used the environment's proxy would fail.
		for _, name := range []string{"HTTP_PROXY", "HTTPS_PROXY", "http_proxy", "https_proxy", "ALL_PROXY"} {
			os.Setenv(name, "http://127.0.0.1:1")
		}
		if err := loadRing(); err != nil {
			panic(err)
		}
		postgrestest.Prepare(func(ctx context.Context, url string) error {
			s, err := store.Open(ctx, store.Config{URL: url, Keys: testRing, Logger: slog.New(slog.DiscardHandler)})
			if err != nil {
				return err
			}
			return s.Close()
		})
		code := postgrestest.Main(m)
		if code == 0 {
			if err := goleak.Find(); err != nil {
				fmt.Fprintln(os.Stderr, "goroutines outlive their tests:", err)
				code = 1
			}
		}
		return code
	}())
}

// loadRing sets testRing.
func loadRing() error {
	dir, err := os.MkdirTemp("", "assay-webhook-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	file := filepath.Join(dir, "secret")
	if err := os.WriteFile(file, []byte(base64.StdEncoding.EncodeToString(bytes.Repeat([]byte("w"), 32))),
		0o600); err != nil {
		return err
	}
	testRing, err = keyring.Load(file)
	return err
}

// waitTimeout bounds every wait for a condition. Exceeding it fails the test.
const waitTimeout = time.Minute

// until waits for a condition.
func until(t testing.TB, condition string, holds func() bool) {
	t.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	deadline := time.After(waitTimeout)
	for !holds() {
		select {
		case <-tick.C:
		case <-deadline:
			t.Fatalf("timed out waiting until %s", condition)
		}
	}
}

func discard() *slog.Logger { return slog.New(slog.DiscardHandler) }
