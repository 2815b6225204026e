package lineup

import (
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"assay/host/audit"
	"assay/host/auditlog"
	"assay/host/check"
	"assay/host/store/postgres/postgrestest"
	"assay/host/store/storetest"
	"assay/registry"
	"assay/registry/activation"
	"assay/registry/expect"
	"assay/registry/release"
)

// tampered is a database in which three activations are stored: of revision 1, of revision 2, and of revision 2 with
// revision 3 as its canary. Modules evil@1.0.0 and probe@3.0.0 are published, too. Hosts in force score "good".
type tampered struct {
	*host
	db     *pgx.Conn
	memory *Memory
}

const good = "revision 2: 12"

func newTampered(t *testing.T) *tampered {
	t.Helper()
	url := postgrestest.Database(t)
	x := &tampered{host: newHost(t, url), db: storetest.Session(t, url)}
	x.publish(t, module(t, "probe", "1.0.0", 10), module(t, "probe", "2.0.0", 30), module(t, "probe", "3.0.0", 60),
		module(t, "evil", "1.0.0", 1))
	x.activate(t, lineupOf(-1, "probe@1.0.0"))
	x.activate(t, lineupOf(-5, "probe@2.0.0"))
	canary := x.storeLineup(t, lineupOf(-4, "probe@2.0.0"))
	x.change(t, Proposal{Lineup: x.last(t).Lineup, Canary: &activation.Canary{Lineup: canary, Share: 5}})
	x.follow(t, 2)
	x.memory = x.verifier.Memory
	expect.Equal(t, "score", x.score(t), good)
	storetest.Exec(t, x.db, "SET session_replication_role = replica") // no foreign keys
	storetest.EndInForce(t, x.db)
	for _, table := range savedTables {
		storetest.Exec(t, x.db, fmt.Sprintf("CREATE TABLE saved_%[1]s AS TABLE %[1]s", table))
	}
	return x
}

var savedTables = []string{"lineup_activations", "lineup_revisions", "revisions_in_force", "plugin_versions",
	"plugin_modules", "plugin_names", "audit_records", "state_records", "audit_heads"}

// start follows with a new host and returns its score and why it refused what.
func (x *tampered) start(t *testing.T, m *Memory) (score string, refused error) {
	t.Helper()
	h := &host{store: x.store, box: x.box, live: &check.Live{}}
	h.follower = NewFollower(&Verifier{Records: x.store, Trust: trust, Memory: m}, x.store, x.box, h.live,
		storetest.Discard())
	defer h.follower.Close()
	refused = h.follower.Follow(t.Context())
	return h.score(t), refused
}

// verify returns what `assay audit verify` finds.
func (x *tampered) verify(t *testing.T) error {
	t.Helper()
	key := audit.NewSigner(audit.KeyName, storetest.Ring.SignSeed).Public
	_, broken, err := auditlog.Verify(t.Context(), x.store, key, trust, nil)
	expect.NoError(t, err)
	inForce, _ := x.verifier.Current(t.Context())
	if inForce.Number == 0 {
		return broken
	}
	altered, err := auditlog.VerifyPlugins(t.Context(), x.store, trust, inForce.Document)
	if err != nil {
		broken = errors.Join(broken, err)
	}
	return errors.Join(broken, altered)
}

// insert stores an activation as the last row.
func (x *tampered) insert(t *testing.T, signed string, a activation.Activation) {
	t.Helper()
	hash := a.Hash()
	expect.Value(x.db.Exec(t.Context(), `INSERT INTO lineup_activations (id, revision, number, signed, hash)
		VALUES (4, $1, $2, $3, $4)`, a.Lineup.Revision, a.Number, signed, hash[:]))(t)
}

// next returns an activation of a lineup that follows another one.
func next(before activation.Activation, l activation.Lineup) activation.Activation {
	return activation.Activation{Number: 4, Previous: before.Hash(), Lineup: l, Author: "eve@test", At: time.Now()}
}

// before returns the activation with a number.
func (x *tampered) numbered(t *testing.T, number int) activation.Activation {
	t.Helper()
	signed := storetest.Value[string](t, x.db,
		fmt.Sprintf("SELECT signed FROM lineup_activations WHERE number = %d", number))
	return expect.Value(activation.Unverified(signed))(t)
}

// TestTampering changes what scores in every way that write access to all tables permits. A host that has run the
// activation in force never scores otherwise; a new one may be given an old one, which `assay audit verify` finds.
func TestTampering(t *testing.T) {
	t.Parallel()
	x := newTampered(t)
	stranger, impostor := mustKey("stranger", 9), mustKey("operator", 9)
	sign := func(a activation.Activation, key activation.Key) string {
		return expect.Value(activation.Sign(a, key))(t)
	}
	forge := func(key activation.Key, after int, revision int64) func(*testing.T) {
		return func(t *testing.T) {
			a := next(x.numbered(t, after), activation.Lineup{Revision: revision,
				Hash: registry.LineupHash(expect.Value(x.store.LineupText(t.Context(), revision))(t))})
			x.insert(t, sign(a, key), a)
		}
	}
	evil := module(t, "evil", "1.0.0", 1).Digest
	probe := module(t, "probe", "2.0.0", 30).Digest
	swapDigest := fmt.Sprintf("replace(text, '%s', '%s')", probe, evil)
	ref := func(d registry.Digest) string { return `'\x` + hex.EncodeToString(d[:]) + `'` }

	type attack struct {
		tamper func(*testing.T)
		want   string
	}
	attacks := map[string]attack{
		"signed by a stranger": {func(t *testing.T) { forgeRow(t, x, sign(x.last(t), stranger)) },
			"key stranger, which the trust file does not list"},
		"signed under our name": {func(t *testing.T) { forgeRow(t, x, sign(x.last(t), impostor)) },
			"key operator, which the trust file does not list"},
		"a stranger's new row": {forge(stranger, 3, 1), "key stranger, which the trust file does not list"},
		"a host's rollback":    {forge(hostKey, 3, 1), "a host's key may"},
		"a host's first activation": {func(t *testing.T) {
			a := x.numbered(t, 1)
			a.Number, a.Author = 4, "eve@test"
			x.insert(t, sign(a, hostKey), a)
		}, "a host's key may not sign the first activation"},
		"a host's shadow of an old lineup": {func(t *testing.T) {
			l := lineupOf(-1, "probe@1.0.0")
			l.Layers[0].Mode = registry.ModeShadow
			a := next(x.numbered(t, 1), x.storeLineup(t, l))
			x.insert(t, sign(a, hostKey), a)
		}, "may not sign number 4 after 1"},
		"a host's shadow of another activation of that number": {func(t *testing.T) {
			l := lineupOf(-1, "probe@1.0.0")
			other := x.numbered(t, 1)
			other.Number, other.Previous = 3, x.numbered(t, 2).Hash()
			hash := other.Hash()
			expect.Value(x.db.Exec(t.Context(), "UPDATE lineup_activations SET signed = $1, hash = $2 WHERE number = 3",
				sign(other, operator), hash[:]))(t)
			l.Layers[0].Mode = registry.ModeShadow
			a := next(other, x.storeLineup(t, l))
			x.insert(t, sign(a, hostKey), a)
		}, "after activation 3, but this host ran activation 3"},
		"a check of an old lineup": {func(t *testing.T) { x.appendCheck(t, 1) },
			"decided by lineup revision 1, which was not in force since"},
		"a check of no lineup": {func(t *testing.T) { x.appendCheck(t, 8) },
			"decided by lineup revision 8, which was not in force"},
	}
	for name, statement := range map[string][2]string{
		// lineup_revisions
		"text: a weight": {`UPDATE lineup_revisions SET text = replace(text, '"weight":10', '"weight":1')`,
			"its text was altered"},
		"text: a module": {"UPDATE lineup_revisions SET text = " + swapDigest, "its text was altered"},
		"text: that of another": {
			"UPDATE lineup_revisions SET text = (SELECT text FROM saved_lineup_revisions WHERE revision = 1)",
			"its text was altered"},
		"text: removed": {"UPDATE lineup_revisions SET text = ''", "its text was altered"},
		"text of the canary": {"UPDATE lineup_revisions SET text = '{}' WHERE revision = 3",
			"canary: revision 3: reading lineup: its text was altered"},
		"text and digest together": {
			"UPDATE lineup_revisions SET text = " + swapDigest + ", digest = sha256(convert_to(" + swapDigest +
				", 'UTF8'))", "its text was altered"},
		"revision: exchanged": {
			"UPDATE lineup_revisions SET revision = 13 - revision WHERE revision < 3; UPDATE lineup_revisions " +
				"SET revision = revision - 10 WHERE revision > 10", "was altered"},
		"revision: removed": {"DELETE FROM lineup_revisions WHERE revision = 2", "there is no such lineup revision"},
		// lineup_activations
		"signed: another number": {"UPDATE lineup_activations SET signed = replace(signed, 'number 3', 'number 9')",
			"invalid signature"},
		"signed: removed":          {"UPDATE lineup_activations SET signed = ''", "it is not signed"},
		"signed: no longer a note": {"UPDATE lineup_activations SET signed = 'yes'", "malformed note"},
		"signed: a second signature": {"UPDATE lineup_activations SET signed = signed || '" +
			strings.SplitN(sign(x.last(t), stranger), "\n\n", 2)[1] + "'", "exactly one signature"},
		"signed: that of another": {
			"UPDATE lineup_activations SET signed = (SELECT signed FROM saved_lineup_activations WHERE id = 1)",
			"its number is not above 3"},
		"number": {"UPDATE lineup_activations SET number = 30 WHERE id = 3", "its number was altered"},
		"reason": {"UPDATE lineup_activations SET reason = 'because' WHERE id = 3", "its reason was altered"},
		"hash":   {`UPDATE lineup_activations SET hash = '\x00' WHERE id = 2`, "the chain of activations is broken"},
		"hash of another": {`UPDATE lineup_activations SET hash = '\x00' WHERE id = 2; UPDATE lineup_activations SET
			hash = (SELECT hash FROM saved_lineup_activations WHERE id = 2) WHERE id = 1`, "cessor of 3 was altered"},
		"canary_revision": {"UPDATE lineup_activations SET canary_revision = 1 WHERE id = 3",
			"its canary was altered"},
		"revision of an activation": {"UPDATE lineup_activations SET revision = 1", "its revision was altered"},
		"canary_revision removed": {"UPDATE lineup_activations SET canary_revision = NULL, share = NULL",
			"its canary was altered"},
		"share":                  {"UPDATE lineup_activations SET share = 50 WHERE id = 3", "its canary was altered"},
		"id: another order":      {"UPDATE lineup_activations SET id = 9 WHERE id = 1", "its number is not above 3"},
		"an earlier row removed": {"DELETE FROM lineup_activations WHERE id = 2", "the chain of activations is broken"},
		"all rows removed":       {"DELETE FROM lineup_activations", "activation 3, which this host ran, is missing"},
		"all lineups and activations removed": {"DELETE FROM lineup_activations; DELETE FROM lineup_revisions",
			"which put lineup revision 1 in force"},
		"an old activation replayed": {
			"INSERT INTO lineup_activations (id, number, revision, signed, hash) SELECT 4, 4, revision, signed, hash " +
				"FROM lineup_activations WHERE id = 1", "its number is not above 3"},
		"a row without a signature": {"INSERT INTO lineup_activations (id, number, revision, signed, hash) " +
			"VALUES (4, 4, 1, '', '')", "it is not signed"},
		// plugin_modules, plugin_versions
		"wasm": {"UPDATE plugin_modules SET wasm = (SELECT wasm FROM saved_plugin_modules WHERE digest = " +
			ref(evil) + ")", "its content was altered"},
		"digests exchanged": {
			"UPDATE plugin_modules AS a SET wasm = b.wasm FROM saved_plugin_modules AS b WHERE a.digest = " +
				ref(probe) + " AND b.digest = " + ref(evil), "its content was altered"},
		"digest of a module": {`UPDATE plugin_modules SET digest = '\x00' WHERE digest = ` + ref(probe),
			"there is no such published plugin"},
		"a module removed": {"DELETE FROM plugin_modules", "there is no such published plugin"},
		"digest of a version": {"UPDATE plugin_versions SET digest = " + ref(evil) + " WHERE version = '2.0.0'",
			"plugin probe@2.0.0: its module is evil@1.0.0"},
		"version": {"UPDATE plugin_versions SET version = '2.0.1' WHERE version = '2.0.0'",
			"its module is probe@2.0.0"},
		"version of another": {
			"DELETE FROM plugin_versions WHERE version = '2.0.0'; UPDATE plugin_versions SET version = '2.0.0' " +
				"WHERE version = '3.0.0'", "its module is probe@3.0.0"},
		"an owner who published nothing": {"INSERT INTO plugin_names VALUES ('probe', 'eve')",
			"the owner of the name probe: eve signed none of its versions"},
		"an owner without a signature": {"INSERT INTO plugin_names VALUES ('probe', 'eve', 'signed')",
			"the owner of the name probe: malformed note"},
		"a version removed": {"DELETE FROM plugin_versions", "not published with the digest of the lineup in force"},
		// revisions_in_force, audit_records, audit_heads
		"until removed": {"UPDATE revisions_in_force SET until = NULL",
			"revision 1 is not in force, but checks under it are recorded"},
		"until put off": {"UPDATE revisions_in_force SET until = until + interval '1 h'",
			"stopped being in force was altered"},
		"until for those in force": {"UPDATE revisions_in_force SET until = now()",
			"revision 2 is in force, but checks under it are refused"},
		"a revision in force":   {"INSERT INTO revisions_in_force VALUES (7)", "revision 7 was never activated"},
		"no revisions in force": {"DELETE FROM revisions_in_force", "revision 2 is missing"},
	} {
		attacks[name] = attack{func(t *testing.T) { storetest.Exec(t, x.db, statement[0]) }, statement[1]}
	}
	const another = `it does not begin with "assay plugin transfer v1\nname probe`
	owned := registry.PluginName{Name: "probe", Owner: "eve"}
	for name, c := range map[string]struct {
		of   registry.PluginName
		by   activation.Key
		want string
	}{
		"an owner by a stranger":    {owned, stranger, "key stranger, which the trust file does not list"},
		"an owner by a host":        {owned, hostKey, `a key with the role "host" may not sign transfers`},
		"an owner of another name":  {registry.PluginName{Name: "prob", Owner: "eve"}, operator, another},
		"an owner who is another's": {registry.PluginName{Name: "probe", Owner: "ev"}, operator, another},
	} {
		attacks[name] = attack{func(t *testing.T) {
			signed := expect.Value(release.SignTransfer(c.of, time.Now(), c.by))(t)
			expect.Value(x.db.Exec(t.Context(), "INSERT INTO plugin_names VALUES ('probe', 'eve', $1)",
				signed.Transfer))(t)
		}, c.want}
	}
	for name, test := range attacks {
		test.tamper(t)
		var found []error
		found = append(found, x.follower.Follow(t.Context()))
		expect.Equal(t, name+": score of a running host", x.score(t), good)
		score, refused := x.start(t, x.memory)
		expect.That(t, score == good || strings.Contains(score, check.ErrNoLineup.Error()),
			"%s: a restarted host scores %s", name, score)
		found = append(found, refused)
		broken := x.verify(t)
		score, refused = x.start(t, &Memory{readOnly: true})
		expect.That(t, score == good || strings.Contains(score, check.ErrNoLineup.Error()) || broken != nil,
			"%s: a new host scores %s, and nothing is found", name, score)
		expect.ErrorText(t, name, errors.Join(append(found, refused, broken)...), test.want)
		for _, table := range savedTables {
			storetest.Exec(t, x.db, fmt.Sprintf("DELETE FROM %[1]s; INSERT INTO %[1]s TABLE saved_%[1]s", table))
		}
		expect.NoError(t, x.follower.Follow(t.Context()))
	}
	expect.NoError(t, x.verify(t))
}

// forgeRow replaces the last activation.
func forgeRow(t *testing.T, x *tampered, signed string) {
	t.Helper()
	expect.Value(x.db.Exec(t.Context(), "UPDATE lineup_activations SET signed = $1 WHERE id = 3", signed))(t)
}

// appendCheck records a check an hour after the last activation, as whoever can write to the database could.
func (x *tampered) appendCheck(t *testing.T, revision int64) {
	t.Helper()
	at := time.Now().Add(time.Hour).UTC().Truncate(time.Millisecond)
	r := audit.Record{Kind: audit.Check, Revision: revision, At: at.Format(check.TimeFormat), Ref: check.NewRef()}
	nonce := make([]byte, audit.NonceBytes)
	leaf := audit.Leaf(nonce, r)
	entry := expect.Value(json.Marshal(map[string]any{"recorded_at": at, "at": r.At, "kind": r.Kind, "ref": r.Ref,
		"account_id": "", "key_id": "", "type": "", "verdict": "", "score": 0, "revision": revision,
		"nonce": `\x` + hex.EncodeToString(nonce), "leaf": `\x` + hex.EncodeToString(leaf[:])}))(t)
	expect.Value(x.db.Exec(t.Context(), "SELECT audit_append(0, $1)", entry))(t)
}

// Who can write to the database cannot turn an operator's choice into a lineup that the next start replaces.
func TestInstallTrustsNoOrigin(t *testing.T) {
	t.Parallel()
	url := postgrestest.Database(t)
	h := newHost(t, url)
	active := install(t, h, builtIn(t, "1.0.0", 1), "first start", 1, "1.0.0", false)
	active.Lineup.Bias = registry.ForAll(-2)
	h.activate(t, active.Lineup)
	storetest.Exec(t, storetest.Session(t, url), "UPDATE lineup_revisions SET origin = 'built-in'")
	install(t, h, builtIn(t, "1.1.0", 2), "start of a newer host", 2, "1.0.0", true)
}
