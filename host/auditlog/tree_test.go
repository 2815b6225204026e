package auditlog

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"assay/host/audit"
	"assay/host/store"
	"assay/host/store/storetest"
	"assay/registry/expect"
)

// fill appends records with arbitrary leaves to chain 0. Their hashes are not valid, which trees do not look at.
func fill(t testing.TB, db *pgx.Conn, n int) {
	t.Helper()
	_, err := db.Exec(t.Context(), `INSERT INTO audit_records (chain, seq, recorded_at, kind, ref, leaf, hash)
		SELECT 0, h.seq + i, now(), 'check', 'fill ' || h.seq + i, sha256(int8send(h.seq + i)), ''
		FROM audit_heads AS h, generate_series(1, $1::bigint) AS i WHERE h.chain = 0`, n)
	if err == nil {
		_, err = db.Exec(t.Context(), "UPDATE audit_heads SET seq = seq + $1 WHERE chain = 0", n)
	}
	expect.NoError(t, err)
}

// treeOf returns the tree of a chain's stored leaves.
func treeOf(t *testing.T, k *Keeper, until int64) audit.TreeHead {
	t.Helper()
	tree := &audit.Tree{}
	for _, leaf := range expect.Value(k.Store.Leaves(t.Context(), 0, 1, until, int(until)))(t) {
		tree.Append(leaf)
	}
	return tree.Head(0)
}

// newestTree returns the head of the newest checkpoint that hosts serve.
func newestTree(t *testing.T, k *Keeper) audit.TreeHead {
	t.Helper()
	return expect.Value(k.Signer.OpenTree(expect.Value(k.Store.NewestCheckpoint(t.Context(), 0))(t)))(t)
}

// another returns a keeper of another host.
func another(t *testing.T, k *Keeper) *Keeper {
	t.Helper()
	return &Keeper{Store: k.Store, Signer: k.Signer, Logger: k.Logger, Trust: k.Trust,
		Dir: CheckpointDir(filepath.Join(t.TempDir(), "checkpoints"))}
}

// The host that extends a tree reports how long the oldest record waited for a checkpoint, once for each.
func TestCheckpointLag(t *testing.T) {
	t.Parallel()
	k, db := oldLog(t)
	var lags []time.Duration
	k.Covered = func(lag time.Duration) { lags = append(lags, lag) }
	expect.NoError(t, k.SignHeads(t.Context()))
	fill(t, db, 3)
	storetest.Exec(t, db, "UPDATE audit_records SET recorded_at = '2022-03-10 11:59:57Z' WHERE seq = 5",
		"UPDATE audit_records SET recorded_at = '2022-03-10 11:59:58Z' WHERE seq > 5")
	dir := k.Dir
	k.Dir = CheckpointDir(filepath.Join(t.TempDir(), "file"))
	expect.NoError(t, os.WriteFile(string(k.Dir), nil, 0o600))
	expect.That(t, k.SignHeads(t.Context()) != nil, "a checkpoint was stored in a file instead of a directory")
	k.Dir = dir
	expect.NoError(t, k.SignHeads(t.Context()))
	expect.NoError(t, k.SignHeads(t.Context()))
	expect.Must(t, len(lags) == 4, "checkpoints of chain 0 and of states: %v", lags)
	expect.Equal(t, "lag", lags[3], 3*time.Second)
}

// Proofs need neither the content of records nor, once it is pruned, the beginning of the chain.
func TestProofsSurviveErasureAndPruning(t *testing.T) {
	t.Parallel()
	k, db := oldLog(t)
	expect.NoError(t, k.SignHeads(t.Context()))
	first := newestTree(t, k)
	expect.Equal(t, "the signed tree", first, treeOf(t, k, 4))
	storetest.Exec(t, db, "UPDATE audit_records SET nonce = NULL, pseudonym = NULL, kind = 'erased' WHERE seq = 3")
	leaves := expect.Value(k.Store.Leaves(t.Context(), 0, 1, 4, 10))(t)
	storetest.Exec(t, db, "DELETE FROM audit_records WHERE seq = 1")
	fill(t, db, 600)
	expect.NoError(t, k.SignHeads(t.Context()))
	second := newestTree(t, k)
	expect.Equal(t, "leaves", second.Size, 604)
	read := reading(t.Context(), k.Store, 0)
	for _, head := range []audit.TreeHead{first, second} {
		for seq := int64(1); seq <= 4; seq++ {
			proof := expect.Value(audit.ProveInclusion(head, seq-1, read))(t)
			expect.NoError(t, audit.CheckInclusion(head, seq-1, leaves[seq-1], proof))
		}
	}
	proof := expect.Value(audit.ProveConsistency(first.Size, second, read))(t)
	expect.NoError(t, audit.CheckConsistency(first, second, proof))

	// Level 0 is pruned up to the tile with the first record that is kept.
	cut := audit.Anchor{Head: audit.Head{Seq: 600}, Before: time.Now()}
	expect.NoError(t, k.Store.PruneAudit(t.Context(), []audit.Anchor{cut}))
	expect.Equal(t, "tiles of level 0", storetest.Value[string](t, db,
		"SELECT string_agg(place::text, ' ') FROM audit_tiles WHERE level = 0 AND chain = 0"), "2")
	expect.Equal(t, "upper tiles", storetest.Value[int](t, db, "SELECT count(*) FROM audit_tiles WHERE level > 0"), 1)
	kept := expect.Value(k.Store.Leaves(t.Context(), 0, 602, 602, 1))(t)
	proof = expect.Value(audit.ProveInclusion(second, 601, read))(t)
	expect.NoError(t, audit.CheckInclusion(second, 601, kept[0], proof))
	expect.Failure(t, expect.ErrorOf(audit.ProveInclusion(second, 1, read)),
		"a pruned record can be proved without its tile")
	fill(t, db, 300)
	expect.NoError(t, k.SignHeads(t.Context()))
	expect.Equal(t, "leaves after pruning", newestTree(t, k).Size, 904)
}

// The tree of a chain that was pruned before it had one begins with the first record that is kept.
func TestTreeOfPrunedChain(t *testing.T) {
	t.Parallel()
	k, db := oldLog(t)
	expect.NoError(t, k.Prune(t.Context()))
	storetest.Exec(t, db, "TRUNCATE audit_trees, audit_tiles, audit_checkpoints") // as before the migration
	expect.NoError(t, os.RemoveAll(string(k.Dir)))
	k = another(t, k)
	expect.NoError(t, k.Prune(t.Context()))
	expect.NoError(t, k.SignHeads(t.Context()))
	tree := expect.Value(k.Store.Trees(t.Context()))(t)[0]
	expect.That(t, tree.First == 3 && tree.Size == 3, "the tree is %+v", tree)
	reports, broken := k.verifyFiles(t)
	expect.That(t, broken == nil && reports[0].Checkpoints == 1, "%+v, %v", reports, broken)
}

// Several hosts extend one tree while records are added, and one of them comes too late with what it computed.
func TestHostsExtendOneTree(t *testing.T) {
	t.Parallel()
	k, db := oldLog(t)
	fill(t, db, 3*growBatch)
	var hosts sync.WaitGroup
	for range 3 {
		host := another(t, k)
		hosts.Go(func() { expect.Error(t, "signing", host.SignHeads(t.Context()), nil) })
	}
	fill(t, db, growBatch)
	hosts.Wait()
	// This host had read the tree before the others extended it.
	stale := expect.Value(k.Store.Trees(t.Context()))(t)[0]
	fill(t, db, 1000)
	expect.NoError(t, another(t, k).SignHeads(t.Context()))
	open := expect.Value(k.open(t.Context(), expect.Value(k.Store.Trees(t.Context()))(t)[0]))(t)
	grown, err := k.extend(t.Context(), &stale, open, stale.Last()+10)
	expect.That(t, !grown && err == nil, "a stale tree was extended: %v, %v", grown, err)
	size := int64(4 + 4*growBatch + 1000)
	expect.NoError(t, k.SignHeads(t.Context()))
	expect.Equal(t, "the tree", newestTree(t, k), treeOf(t, k, size))
	expect.NoError(t, k.SignHeads(t.Context()))
	signed := ReadCheckpoints(expect.Value(k.Dir.Files())(t), k.Signer.Public).Trees
	expect.Equal(t, "checkpoints of chains that did not move", len(signed), 3)
}

// What contradicts the tree is reported, and neither the tree nor signed history changes.
func TestContradictedTrees(t *testing.T) {
	t.Parallel()
	k, db := oldLog(t)
	fill(t, db, 600)
	expect.NoError(t, k.SignHeads(t.Context()))
	const state = "SELECT md5(string_agg(t::text, ' ' ORDER BY level, place)) FROM audit_tiles AS t"
	tiles := storetest.Value[string](t, db, state)
	restore := dump(t, db, "kept", "audit_trees", "audit_tiles", "audit_heads")
	for _, test := range []struct {
		name, damage, mend, reason string
	}{
		{"the last record was replaced", "UPDATE audit_records SET leaf = sha256('x') WHERE seq = 604",
			"UPDATE audit_records SET leaf = sha256(int8send(604)) WHERE seq = 604",
			"record 604: its leaf differs from the one in the Merkle tree"},
		{"the root was altered", "UPDATE audit_trees SET root = sha256('x')", "", "do not have the stored root"},
		{"the row was altered", "UPDATE audit_trees SET root = 'x'", "", "the row of its Merkle tree was altered"},
		{"a tile on the edge was altered", "UPDATE audit_tiles " +
			"SET hashes = set_byte(hashes, 0, get_byte(hashes, 0) # 1) WHERE level = 1", "",
			"do not have the stored root"},
		{"a tile on the edge was deleted", "DELETE FROM audit_tiles WHERE level = 1", "",
			"do not have the stored root"},
		{"a new tile is there already", "INSERT INTO audit_tiles VALUES (0, 0, 3, sha256('x'))",
			"DELETE FROM audit_tiles WHERE place = 3", "a stored tile of its Merkle tree differs from the records"},
		{"a record is missing", "UPDATE audit_records SET seq = 9999 WHERE seq = 700",
			"UPDATE audit_records SET seq = 700 WHERE seq = 9999", "record 700: the record is missing"},
		{"the chain was cut", "UPDATE audit_heads SET seq = 500", "", "its Merkle tree covers record 604"},
	} {
		fill(t, db, 500)
		storetest.Exec(t, db, test.damage)
		signed := storetest.Value[int](t, db, "SELECT count(*) FROM audit_checkpoints")
		expect.ErrorText(t, test.name, k.SignHeads(t.Context()), test.reason)
		expect.Equal(t, test.name+": checkpoints", storetest.Value[int](t, db,
			"SELECT count(*) FROM audit_checkpoints"), signed)
		storetest.Exec(t, db, test.mend+"; DELETE FROM audit_records WHERE seq > 604")
		restore()
		expect.NoError(t, k.SignHeads(t.Context()))
		expect.Equal(t, test.name+": tiles", storetest.Value[string](t, db, state), tiles)
	}

	// A tree that was built again from other records is not signed, by this host or by one that was just started.
	storetest.Exec(t, db, `TRUNCATE audit_trees, audit_tiles;
		UPDATE audit_records SET leaf = sha256('x') WHERE seq = 300`)
	for _, host := range []*Keeper{k, another(t, k), {Store: k.Store, Signer: k.Signer, Logger: k.Logger, Dir: k.Dir}} {
		expect.ErrorText(t, "signing a rewritten history", host.SignHeads(t.Context()),
			"contradicts the signed checkpoint of 604 leaves")
	}
}

// Verification holds the tree against the records that it reads.
func TestVerifyTree(t *testing.T) {
	t.Parallel()
	k, db := oldLog(t)
	expect.NoError(t, k.SignHeads(t.Context()))
	outside := ReadCheckpoints(expect.Value(k.Dir.Files())(t), k.Signer.Public)
	forged := expect.Value(k.Signer.SignTree(audit.TreeHead{Size: 3, Root: audit.EmptyRoot}))(t)
	later := expect.Value(k.Signer.SignTree(audit.TreeHead{Size: 9, Root: audit.EmptyRoot}))(t)
	restore := dump(t, db, "kept", "audit_trees", "audit_tiles", "audit_checkpoints")
	for _, test := range []struct{ name, damage, reason string }{
		{"nothing", "", ""},
		{"a tile altered", `UPDATE audit_tiles SET hashes = set_byte(hashes, 40, get_byte(hashes, 40) # 1)
			WHERE chain = 0`, "record 2: its leaf differs from the one in tile/0/000.p/4"},
		{"a tile deleted", "DELETE FROM audit_tiles", "record 1: its leaf differs"},
		{"the root altered", "UPDATE audit_trees SET root = sha256('x')", "does not have the stored root"},
		{"the row altered", "UPDATE audit_trees SET size = -1", "the row of its Merkle tree was altered"},
		{"the tree behind", "UPDATE audit_trees SET size = 0, root = sha256('')", ""},
		{"the tree longer", "UPDATE audit_trees SET size = 5", "the Merkle tree covers record 5"},
		{"the tree moved", "UPDATE audit_trees SET first_seq = 2", "its Merkle tree begins at record 2 only"},
		{"the tree deleted", "DELETE FROM audit_trees", "the tree is not in the database"},
		{"a checkpoint of other records", "INSERT INTO audit_checkpoints VALUES (0, 3, '" + forged + "')",
			"record 3: the Merkle tree differs from a signed checkpoint"},
		{"a checkpoint of later records", "INSERT INTO audit_checkpoints VALUES (0, 9, '" + later + "')",
			"a signed checkpoint covers 9: the tail was cut off"},
		{"a forged size", "UPDATE audit_checkpoints SET note = replace(note, E'\\n4\\n', E'\\n3\\n')",
			"the row of a checkpoint has another chain or size"},
		{"a checkpoint moved", "UPDATE audit_checkpoints SET chain = 5 WHERE chain = 0",
			"the row of a checkpoint has another chain or size"},
		{"a forged root", `UPDATE audit_checkpoints SET note = regexp_replace(note, E'\n[^\n]{43}=\n',
			E'\n' || repeat('A', 43) || E'=\n')`, "was not signed by this installation"},
	} {
		storetest.Exec(t, db, test.damage)
		reports, broken := k.verify(t, outside)
		expect.Outcome(t, test.name, broken, test.reason)
		expect.That(t, broken != nil || reports[0].Checkpoints == 1, "%s: %+v", test.name, reports)
		restore()
	}
	// Without any checkpoint, nothing would show that all was rewritten.
	storetest.Exec(t, db, "TRUNCATE audit_checkpoints")
	reports, _ := k.verify(t, nil)
	since := time.Date(2021, 1, 20, 12, 0, 0, 0, time.UTC)
	expect.ErrorText(t, "a chain without checkpoints", reports[0].Unsigned(since.Add(unsignedFor)),
		"no signed checkpoint covers this record")
	expect.NoError(t, reports[0].Unsigned(since.Add(unsignedFor-time.Second)))
}

// Damaged and lost files are findings, repaired from the database. They stop neither verification nor pruning.
func TestDamagedCheckpointFiles(t *testing.T) {
	t.Parallel()
	k, _ := oldLog(t)
	kept := func(what, finding string) {
		t.Helper()
		expect.Outcome(t, what, expect.Value(k.Dir.compare(t.Context(), k.Store, k.Signer.Public))(t), finding)
	}
	expect.NoError(t, k.SignHeads(t.Context()))
	kept("whole files", "")
	name := expect.Value(k.Dir.Files())(t)[0]
	text := expect.Value(os.ReadFile(name))(t)
	notes := audit.SplitCheckpoints(string(text))
	text = []byte(notes[2] + "\n" + notes[1] + "\n" + notes[0] + "\n") // that of chain 0 last
	expect.NoError(t, os.WriteFile(name, text[:len(text)-20], 0o600))  // the host died while writing
	expect.NoError(t, k.Prune(t.Context()))
	expect.NoError(t, k.SignHeads(t.Context()))
	c := ReadCheckpoints(expect.Value(k.Dir.Files())(t), k.Signer.Public)
	kept("a cut", "1 entries are not checkpoints")
	expect.That(t, len(c.Damaged) == 1 && strings.Contains(c.Damaged[0], "1 entries are not checkpoints") &&
		len(c.Trees) == 3 && len(c.Heads) == 1, "checkpoints after a cut %+v", c)
	reports, broken := k.verifyFiles(t)
	expect.That(t, broken == nil && reports[0].Checkpoints == 3, "%+v, %v", reports, broken)
	expect.NoError(t, k.Tidy(t.Context()))
	c = ReadCheckpoints(expect.Value(k.Dir.Files())(t), k.Signer.Public)
	expect.That(t, len(c.Damaged) == 0 && len(c.Trees) == 4 && len(c.Heads) == 1, "repaired %+v", c)
	kept("repaired files", "")
	for _, file := range expect.Value(k.Dir.Files())(t) {
		expect.NoError(t, os.Truncate(file, 0))
	}
	kept("emptied files", "4 signed checkpoints of the database are missing")
	expect.NoError(t, os.RemoveAll(string(k.Dir)))
	kept("deleted files", "4 signed checkpoints of the database are missing")
	expect.NoError(t, k.Tidy(t.Context()))
	expect.NoError(t, k.Tidy(t.Context())) // nothing is missing
	c = ReadCheckpoints(expect.Value(k.Dir.Files())(t), k.Signer.Public)
	expect.That(t, len(c.Damaged) == 0 && len(c.Trees) == 4, "restored from the database %+v", c)
	expect.Equal(t, "missing files", len(ReadCheckpoints([]string{"missing"}, k.Signer.Public).Damaged), 1)
	expect.Failure(t, expect.ErrorOf(CheckpointDir(expect.Value(k.Dir.Files())(t)[0]).Files()),
		"a folder that cannot be read counts as empty")
}

// Files of hours become files of days with a checkpoint an hour. Anchors are kept.
func TestCheckpointFilesAreThinned(t *testing.T) {
	t.Parallel()
	signer := audit.NewSigner(audit.KeyName, storetest.Ring.SignSeed)
	dir := CheckpointDir(filepath.Join(t.TempDir(), `d[1]*\?`))
	tree := func(chain int, size int64) string {
		return expect.Value(signer.SignTree(audit.TreeHead{Chain: chain, Size: size}))(t)
	}
	anchor := expect.Value(signer.Anchor(audit.Anchor{Head: audit.Head{Seq: 1}, Before: time.Now()}))(t)
	for hour, texts := range map[string][]string{
		"2026-05-01T09": {tree(0, 1), anchor, tree(0, 2), tree(1, 5)},
		"2026-05-01T10": {tree(0, 3), tree(0, 4)},
		"2026-05-02T09": {tree(0, 5), tree(0, 6)},
	} {
		expect.NoError(t, dir.append(hour+".txt", texts))
	}
	now := time.Date(2026, 5, 2, 11, 0, 0, 0, time.UTC)
	for range 2 {
		repaired, err := dir.Tidy(signer.Public, now)
		expect.That(t, err == nil && repaired == nil, "%v, %v", repaired, err)
	}
	files := expect.Value(dir.Files())(t)
	for i := range files {
		files[i] = filepath.Base(files[i])
	}
	expect.That(t, slices.Equal(files, []string{"2026-05-01.txt", "2026-05-02T09.txt"}), "files %v", files)
	c := ReadCheckpoints(expect.Value(dir.Files())(t), signer.Public)
	sizes := ""
	for _, head := range c.Trees {
		sizes += fmt.Sprint(head.Size)
	}
	expect.That(t, sizes == "25456" && len(c.Heads) == 1 && c.Damaged == nil, "sizes %s, %+v", sizes, c)
}

// Run signs within 2 s, and catches up with many records while it does.
func TestRunSigns(t *testing.T) {
	t.Parallel()
	k, db := oldLog(t)
	storetest.Background(t, k.Run)
	for _, n := range []int{0, 1, 2*growBatch + 1} {
		fill(t, db, n)
		want := storetest.Value[int64](t, db, "SELECT seq FROM audit_heads WHERE chain = 0")
		expect.Until(t, "the checkpoint of all records", func() bool { return k.Status().Signed[0].Seq == want })
	}
}

var _ tileSource = (*store.Store)(nil)
