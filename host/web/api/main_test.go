package api

import (
	"context"
	"errors"
	"os"
	"testing"

	"assay/host/store"
	"assay/host/store/postgres/postgrestest"
	"assay/host/store/storetest"
)

// TestMain prepares databases for the tests that need one.
func TestMain(m *testing.M) {
	postgrestest.Prepare(func(ctx context.Context, url string) error {
		s, err := store.Open(ctx, storeConfig(url))
		if err != nil {
			return err
		}
		return errors.Join(s.Close(), storetest.PutInForce(ctx, url))
	})
	os.Exit(postgrestest.Main(m))
}

func storeConfig(url string) store.Config {
	return store.Config{URL: url, DirectURL: url, Keys: storetest.Ring, Logger: storetest.Discard()}
}
