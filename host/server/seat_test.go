package server

import (
	"testing"

	"assay/host/hosttest"
	"assay/host/installation"
	"assay/host/lineup/fleet"
	"assay/host/store/postgres/postgrestest"
	"assay/registry/expect"
)

// A data directory has one host at a time. One that was killed is in the fleet until it is silent, and every change of
// the lineup waits for it: its next run takes it out. One that drains leaves the seat, and stays in the fleet.
func TestSeat(t *testing.T) {
	t.Parallel()
	dir, ctx := hosttest.DataDir(t), t.Context()
	b := hosttest.OpenStore(t, dir, postgrestest.Database(t))
	start := func(dir, id string, wanted ...string) *seat {
		t.Helper()
		h := &host{cfg: &installation.Config{DataDir: dir}, id: id, store: b.Store}
		_, err := openSeat(ctx, h)
		expect.NoError(t, err)
		t.Cleanup(func() { _ = h.seat.file.Close() })
		expect.NoError(t, expect.ErrorOf(noteHost(ctx, h)))
		expect.NoError(t, expect.ErrorOf(b.Store.BeatHost(ctx, id, id, fleet.State{})))
		var got []string
		for _, h := range expect.Value(b.Store.Hosts(ctx))(t) {
			got = append(got, h.ID)
		}
		expect.NoDiff(t, "hosts", wanted, got)
		return h.seat
	}
	start(t.TempDir(), "host_0", "host_0")
	killed := start(dir, "host_1", "host_0", "host_1")
	expect.NoError(t, killed.file.Close())
	running := start(dir, "host_2", "host_0", "host_2")
	_, err := openSeat(ctx, &host{cfg: &installation.Config{DataDir: dir}})
	expect.ErrorText(t, "a second host", err, "another host runs in the data directory "+dir)
	expect.NoError(t, running.leave())
	start(dir, "host_3", "host_0", "host_2", "host_3")
	expect.NoError(t, running.leave()) // at its end, when another has the seat
	_, err = openSeat(ctx, &host{cfg: &installation.Config{DataDir: dir}})
	expect.ErrorText(t, "a third host", err, "another host runs")
}
