package server

import (
	"testing"

	"assay/host/hosttest"
	"assay/host/installation"
	"assay/host/lineup/fleet"
	"assay/host/store/postgres/postgrestest"
	"assay/registry/expect"
)

// A host that was killed is in the fleet until it is silent, and every change of the lineup waits for it. Its next run
// takes it out, but no host that runs.
func TestKilledHostIsReplacedByItsNextRun(t *testing.T) {
	t.Parallel()
	dir, ctx := hosttest.DataDir(t), t.Context()
	b := hosttest.OpenStore(t, dir, postgrestest.Database(t))
	start := func(dir, id string, wanted ...string) (kill func() error) {
		t.Helper()
		p := expect.Value(openSeat(ctx, &host{cfg: &installation.Config{DataDir: dir}, id: id, store: b.Store}))(t)
		expect.NoError(t, b.Store.BeatHost(ctx, id, id, fleet.State{}))
		var got []string
		for _, h := range expect.Value(b.Store.Hosts(ctx))(t) {
			got = append(got, h.ID)
		}
		expect.NoDiff(t, "hosts", wanted, got)
		return p.Close
	}
	other := start(t.TempDir(), "host_0", "host_0")
	defer func() { expect.NoError(t, other()) }()
	kill := start(dir, "host_1", "host_0", "host_1")
	expect.NoError(t, kill())
	kill = start(dir, "host_2", "host_0", "host_2")
	second := start(dir, "host_3", "host_0", "host_2", "host_3") // on another port
	expect.NoError(t, second())
	expect.NoError(t, kill())
	kill = start(dir, "host_4", "host_0", "host_3", "host_4") // it was the second in its folder
	expect.NoError(t, kill())
}
