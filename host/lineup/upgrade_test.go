package lineup

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"assay/host/audit"
	"assay/host/auditlog"
	"assay/host/store/postgres/postgrestest"
	"assay/host/store/storetest"
	"assay/registry"
	"assay/registry/expect"
)

// upgrading is how long hosts of the release before may take to follow.
const upgrading = 30 * time.Minute

// activateUnsigned puts a lineup in force as the release before activations were signed did.
func activateUnsigned(
	t *testing.T, db *pgx.Conn, revision int64, l registry.LineupDocument, origin registry.LineupOrigin,
) {
	t.Helper()
	at := time.Now().UTC().Truncate(time.Millisecond)
	document := expect.Value(l.Encode())(t)
	digest := sha256.Sum256(document)
	entry := func() string {
		return entryOf(t, at, audit.Record{Kind: audit.Lineup, Revision: revision, Digest: digest[:]})
	}
	expect.Value(db.Exec(t.Context(),
		`SELECT activate_lineup($1, $2, $3, $4, '', jsonb_build_object('0', $5::jsonb, '1000000', $6::jsonb))`,
		revision, new(string(document)), digest[:], origin, entry(), entry()))(t)
}

// unsigned returns a host on a database in which the release before put lineups of the given versions of the built-in
// layers in force, one after the other.
func unsigned(t *testing.T, origin registry.LineupOrigin, versions ...string) (*host, *pgx.Conn) {
	t.Helper()
	url := postgrestest.Database(t)
	h, db := newHost(t, url), storetest.Session(t, url)
	storetest.EndInForce(t, db)
	for i, version := range versions {
		h.publish(t, builtIn(t, version, 1)...)
		l := expect.Value(registry.DefaultLineup())(t)
		for i := range l.Layers {
			l.Layers[i].Layer += "@" + version
		}
		activateUnsigned(t, db, int64(i)+1, l, origin)
	}
	return h, db
}

// What the release before put in force is signed once, by a host that may trust it.
func TestInstallSignsWhatWasInForce(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		origin  registry.LineupOrigin
		prepare func(t *testing.T, in *Installer, db *pgx.Conn)
		want    string // number, version of the layers, and author of what is in force afterwards
		err     error
	}{
		"the built-in lineup of this release": {registry.OriginBuiltIn, nil, "1 1.1.0 built-in", nil},
		"an older built-in lineup":            {registry.OriginBuiltIn, nil, "2 1.2.0 built-in", nil},
		"an operator's lineup":                {registry.OriginOperator, nil, "1 1.1.0 unknown", nil},
		"a rollback to a built-in lineup": {registry.OriginBuiltIn, func(t *testing.T, _ *Installer, db *pgx.Conn) {
			storetest.Exec(t, db, "INSERT INTO lineup_activations (id, revision) VALUES (3, 1)",
				"SELECT record_activation(3)")
		}, "1 1.0.0 unknown", nil},
		"a host with a trust file": {registry.OriginBuiltIn, func(_ *testing.T, in *Installer, _ *pgx.Conn) {
			in.Adopt = false
		}, "", errUnsigned},
		"a host that ran signed lineups": {registry.OriginBuiltIn, func(t *testing.T, in *Installer, _ *pgx.Conn) {
			expect.NoError(t, in.Verifier.Memory.Remember(7, registry.Digest{7}))
		}, "", errUnsigned},
		"a host without the operator's key": {registry.OriginBuiltIn, func(_ *testing.T, in *Installer, _ *pgx.Conn) {
			in.Operator = nil
		}, "", errNoOperator},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h, db := unsigned(t, c.origin, "1.0.0", "1.1.0")
			in := h.installer()
			in.Adopt = true
			if c.prepare != nil {
				c.prepare(t, in, db)
			}
			modules := builtIn(t, "1.1.0", 1)
			if name == "an older built-in lineup" {
				modules = builtIn(t, "1.2.0", 1)
			}
			if _, err := in.Install(t.Context(), modules); !errors.Is(err, c.err) {
				t.Fatalf("installing: %v, want %v", err, c.err)
			}
			if c.err != nil {
				if signed, _, err := h.store.LastActivation(t.Context()); err != nil || signed != "" {
					t.Errorf("the last activation is %q, %v", signed, err)
				}
				return
			}
			in.Adopt = false // what follows does not depend on it
			expect.NoError(t, expect.ErrorOf(in.Install(t.Context(), modules)))
			inForce, _, err := h.verifier.InForce(t.Context())
			expect.NoError(t, err)
			_, version, _ := inForce.Document.Layers[0].Ref()
			expect.Equal(t, "in force", fmt.Sprint(inForce.Number, " ", version, " ", inForce.Author), c.want)
			h.follow(t, inForce.Lineup.Revision)

			// Hosts of the release before have taken long to follow.
			began := inForce.At
			for _, later := range []time.Duration{29 * time.Minute, 31 * time.Minute} {
				appendRecord(t, db, began.Add(later), audit.Record{Kind: audit.Check, Revision: 1})
				found := later > upgrading
				signer := auditlog.NewSigner(storetest.Ring.SignSeed)
				_, broken, err := auditlog.Verify(t.Context(), h.store, signer.Public, trust, nil)
				expect.NoError(t, err)
				if found != (broken != nil) {
					t.Errorf("after a check by a replaced lineup %v later, audit verify finds %v", later, broken)
				}
			}
		})
	}
}

// A database without a signed lineup, such as an old backup, gets one when an operator sets one. Hosts that ran signed
// ones accept it if its number is above theirs.
func TestUnsignedBackup(t *testing.T) {
	t.Parallel()
	h, _ := unsigned(t, registry.OriginOperator, "1.0.0")
	expect.NoError(t, h.verifier.Memory.Remember(7, registry.Digest{7}))
	if _, ok, err := h.verifier.InForce(t.Context()); err != nil || ok {
		t.Errorf("in force is something: %v, %v", ok, err)
	}
	expect.ErrorText(t, "following it", h.follower.Follow(t.Context()), "it is not signed")
	stored := h.storeLineup(t, expect.Value(h.store.ActiveLineup(t.Context()))(t).Lineup)
	p := Proposal{Lineup: stored, Above: 7, Author: "ana@test", At: time.Now()}
	expect.NoError(t, h.store.Activate(t.Context(), expect.Value(p.Sign(operator, trust))(t)))
	h.follow(t, stored.Revision)
	number, hash := h.verifier.Memory.Last()
	if number != 8 || hash == (registry.Digest{}) {
		t.Errorf("it remembers activation %d %s", number, hash)
	}
}
