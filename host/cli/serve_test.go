package cli

import (
	"net"
	"slices"
	"strings"
	"syscall"
	"testing"

	"assay/host/hosttest"
	"assay/registry/expect"
)

// TestStopDuringTheStart checks that a host which is stopped while it starts, here while it waits for its database,
// ends as one that was stopped later: with 0 and without an error.
func TestStopDuringTheStart(t *testing.T) {
	t.Parallel()
	database := expect.Value(net.Listen("tcp", "127.0.0.1:0"))(t)
	defer database.Close()
	cmd := hosttest.Command(t.Context(), hosttest.DataDir(t), "postgres://a@"+database.Addr().String()+"/a", "serve")
	var said strings.Builder
	cmd.Stderr = &said
	expect.NoError(t, cmd.Start())
	expect.Value(database.Accept())(t) // and never answers
	expect.NoError(t, cmd.Process.Signal(syscall.SIGTERM))
	err := cmd.Wait()
	expect.That(t, err == nil && !strings.Contains(said.String(), "assay:"), "the host ended with %v: %s", err, &said)
}

func TestBenchEnv(t *testing.T) {
	t.Parallel()
	got := benchEnv([]string{"PATH=/bin", "ASSAY_WITNESS=x", "ASSAY_STRIPE_KEY=x", "ASSAY_SMTP_URL=x", "ASSAY_CHAINS=2",
		"ASSAY_CHECKPOINT_KEY=x", "ASSAY_DATABASE_CONNECTIONS=3", "ASSAY_DATABASE_URL=x", "GOGC=50"})
	want := []string{"PATH=/bin", "ASSAY_CHAINS=2", "ASSAY_DATABASE_CONNECTIONS=3", "GOGC=50", "ASSAY_CONFIG=",
		"ASSAY_DRAIN=0s", "ASSAY_DNS=off", "ASSAY_RDAP_URL=off"}
	expect.That(t, slices.Equal(got, want), "got %q, want %q", got, want)
}
