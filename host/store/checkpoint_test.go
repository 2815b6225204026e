package store

import (
	"testing"

	"assay/host/audit"
	"assay/host/store/postgres/postgrestest"
)

func TestCosignedCheckpoints(t *testing.T) {
	t.Parallel()
	url := postgrestest.Database(t)
	s, db := open(t, url, nil), session(t, url)
	const one, two = "\u2014 w1 AAAA\n", "\u2014 w11 BBBB\n"
	notes := map[int64]string{4: "four\n", 6: "six\n", 7: "seven\n", 9: "nine\n"}
	for size, note := range notes {
		noError(t, s.KeepCheckpoints(t.Context(), []Tree{{TreeHead: audit.TreeHead{Size: size}}}, []string{note}))
	}
	for _, c := range []struct {
		size        int64
		name, lines string
	}{{4, "w1", one}, {6, "w11", two}, {6, "w1", one}, {6, "w1", "\u2014 w1 CCCC\n"}, {5, "w1", one}} {
		noError(t, s.KeepCosignature(t.Context(), 0, c.size, c.name, c.lines))
	}
	newest := must(s.NewestCheckpoint(t.Context(), 0))(t)
	expect(t, "the newest checkpoint", newest, "nine\n")
	for size, want := range map[int64]string{0: "six\n" + two + one, 6: "six\n" + two + one, 7: ""} {
		expect(t, "the newest cosigned checkpoint", must(s.NewestCosigned(t.Context(), 0, size))(t), want)
	}
	expect(t, "that of another chain", must(s.NewestCosigned(t.Context(), 1, 0))(t), "")

	// Of an hour, the newest checkpoint is kept, and the newest that is cosigned.
	exec(t, db, "UPDATE audit_checkpoints SET signed_at = date_trunc('hour', now()) - interval '2 days'")
	noError(t, s.ThinCheckpoints(t.Context()))
	expect(t, "sizes that are kept", value[string](t, db,
		"SELECT string_agg(size::text, ' ' ORDER BY size) FROM audit_checkpoints"), "6 9")
}
