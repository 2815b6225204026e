package webhook_test

import (
	"context"
	"os"
	"testing"

	"assay/host/store"
	"assay/host/store/storetest"
)

func TestMain(m *testing.M) {
	if url := os.Getenv(hostDatabase); url != "" {
		os.Exit(runHost(url))
	}
	// Nothing listens there, so a request that used the environment's proxy would fail.
	for _, name := range []string{"HTTP_PROXY", "HTTPS_PROXY", "http_proxy", "https_proxy", "ALL_PROXY"} {
		os.Setenv(name, "http://127.0.0.1:1")
	}
	os.Exit(storetest.Main(m, openStore))
}

// openStore opens a store on the database at url.
func openStore(ctx context.Context, url string) (*store.Store, error) {
	return store.Open(ctx, store.Config{URL: url, Keys: storetest.Ring, Logger: storetest.Discard()})
}
