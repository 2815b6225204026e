package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	"assay/host/postgres/postgrestest"
	"assay/host/store/storetest"
	"assay/registry"
	"assay/registry/activation"
)

// tryOutput runs a command and returns all that it prints.
func tryOutput(t *testing.T, dir, database string, env []string, args ...string) (string, error) {
	t.Helper()
	cmd := command(t.Context(), dir, database, args...)
	cmd.Env = append(cmd.Env, env...)
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// wantRefusal runs a command that must fail and print all texts.
func wantRefusal(t *testing.T, what, dir, database string, env []string, args []string, texts ...string) {
	t.Helper()
	out, err := tryOutput(t, dir, database, env, args...)
	if err == nil {
		t.Errorf("%s succeeded:\n%s", what, out)
	}
	for _, text := range texts {
		if !strings.Contains(out, text) {
			t.Errorf("%s does not print %q:\n%s", what, text, out)
		}
	}
}

// TestFirstStart starts hosts without a trust file: the first one makes it, and others need a copy.
func TestFirstStart(t *testing.T) {
	t.Parallel()
	dir, database := dataDir(t), postgrestest.Database(t)
	file := func(name string) string { return filepath.Join(dir, name) }
	storetest.NoError(t, os.Remove(file("trust")))
	storetest.NoError(t, os.Remove(file("operator.key")))
	startHost(t, dir, database).stop(t, syscall.SIGTERM)
	for _, name := range []string{"operator.key", "trust"} {
		if mode := storetest.Must(os.Stat(file(name)))(t).Mode(); mode != 0o600 {
			t.Errorf("%s has mode %v", name, mode)
		}
	}
	trust := readText(t, file("trust"))
	if strings.Count(trust, "\noperator assay/operator+") != 1 || strings.Count(trust, "\nhost assay/host+") != 1 {
		t.Errorf("the trust file is\n%s", trust)
	}
	b := openStore(t, dir, database)
	signed, _, err := b.store.LastActivation(t.Context())
	storetest.NoError(t, err)
	first := storetest.Must(storetest.Must(activation.ParseTrust(trust))(t).Open(signed))(t)
	if first.Number != 1 || first.Author != activation.BuiltIn || first.Role != activation.Operator {
		t.Errorf("the first activation is %+v", first)
	}
	if memory := readText(t, file("activation")); memory != fmt.Sprintf("1 %s\n", first.Hash) {
		t.Errorf("the host remembers %q", memory)
	}

	// A first start that was killed before it wrote the trust file goes on where it was.
	storetest.NoError(t, os.Remove(file("trust")))
	startHost(t, dir, database).stop(t, syscall.SIGTERM)
	storetest.Expect(t, "the trust file", readText(t, file("trust")), trust)
	if again, _, err := b.store.LastActivation(t.Context()); err != nil || again != signed {
		t.Errorf("the last activation is %s, %v", again, err)
	}

	// A second host has the secret alone.
	second := dataDir(t)
	storetest.NoError(t, os.Remove(filepath.Join(second, "operator.key")))
	storetest.NoError(t, os.Remove(filepath.Join(second, "trust")))
	_, err = tryHost(t, command(t.Context(), second, database))
	storetest.WantErrorText(t, "a second host without a trust file", err, "copy it from a host that runs")
	if _, err := os.Stat(filepath.Join(second, "operator.key")); err == nil {
		t.Error("it made an operator's key")
	}
	storetest.NoError(t, os.WriteFile(filepath.Join(second, "trust"), []byte(trust), 0o600))
	host := startHost(t, second, database)
	storetest.Expect(t, "/readyz", get(t, host.admin+"/readyz", ""), `{"status":"ready"}`+"\n")
	wantRefusal(t, "lineup set without the operator's key", second, database, nil,
		[]string{"lineup", "set", writeJSON(t, storetest.Must(b.store.ActiveLineup(t.Context()))(t).Lineup)},
		"set ASSAY_OPERATOR_KEY to its file")
}

// TestOperators changes the lineup as operators do who do not know of each other, and with keys that hosts do not
// trust.
func TestOperators(t *testing.T) {
	t.Parallel()
	f := newFleet(t, 1)
	show := func(name string, weight float64) string {
		t.Helper()
		var l registry.LineupDocument
		storetest.NoError(t, json.Unmarshal([]byte(output(t, f.dir, f.database, "lineup", "show", "--file")), &l))
		base := l.Base
		if weight != 0 {
			l = variant(l, weight)
			l.Base = base
		}
		return writeFile(t, name, storetest.Must(json.Marshal(l))(t))
	}
	inForce := func() string {
		a := storetest.Must(activation.Unverified(f.signed(t)))(t)
		return fmt.Sprintf("activation %d, revision %d", a.Number, a.Lineup.Revision)
	}
	set := func(file string) []string { return []string{"lineup", "set", file} }

	// A file that was not changed is the lineup in force. A derived one does not replace what came after its base.
	stale := show("stale.json", 6.5)
	if text := output(t, f.dir, f.database, set(show("unchanged.json", 0))...); !strings.Contains(text,
		"Revision 1 is in force on") || strings.Contains(text, "warning") {
		t.Errorf("setting what is in force printed\n%s", text)
	}
	storetest.Expect(t, "in force", inForce(), "activation 2, revision 1")
	output(t, f.dir, f.database, set(show("changed.json", 7))...)
	storetest.Expect(t, "in force", inForce(), "activation 3, revision 2")
	wantRefusal(t, "setting a stale file", f.dir, f.database, nil, set(stale), "derives from another activation than 3",
		"Changed in force by", "(activation 3):", "Changed by the file:", "iban: weight")

	// Of two operators at once, one wins, and the other one sees both changes.
	files := []string{show("ana.json", 7.25), show("bob.json", 7.5)}
	var both sync.WaitGroup
	outs, errs := make([]string, 2), make([]error, 2)
	for i, file := range files {
		both.Go(func() { outs[i], errs[i] = tryOutput(t, f.dir, f.database, nil, set(file)...) })
	}
	both.Wait()
	if (errs[0] == nil) == (errs[1] == nil) {
		t.Errorf("two operators at once: %v, %v\n%s\n%s", errs[0], errs[1], outs[0], outs[1])
	}
	for i, err := range errs {
		for _, text := range []string{"Changed in force by", "Changed by the file:"} {
			if err != nil && !strings.Contains(outs[i], text) {
				t.Errorf("the one who lost does not see %q:\n%s", text, outs[i])
			}
		}
	}
	before := inForce()
	if !strings.HasPrefix(before, "activation 4, ") {
		t.Errorf("in force is %s", before)
	}

	// A new key is refused, here or by the host that does not trust it, before anything is in force.
	key := filepath.Join(t.TempDir(), "bob.key")
	line := output(t, f.dir, f.database, "lineup", "key", key, "--name", "bob")
	if !strings.HasPrefix(line, "operator bob+") || strings.Count(line, "\n") != 1 {
		t.Errorf("lineup key printed %q", line)
	}
	if mode := storetest.Must(os.Stat(key))(t).Mode(); mode != 0o600 {
		t.Errorf("the key has mode %v", mode)
	}
	wantRefusal(t, "making a key again", f.dir, f.database, nil, []string{"lineup", "key", key}, "exists already")
	next, env := set(show("next.json", 8)), []string{"ASSAY_OPERATOR_KEY=" + key}
	wantRefusal(t, "a key that is not trusted", f.dir, f.database, env, next,
		"nothing was changed", "key bob, which the trust file does not list")
	trust := writeFile(t, "trust", []byte(readText(t, filepath.Join(f.dir, "trust"))+line))
	wantRefusal(t, "a key that the host does not trust", f.dir, f.database, append(env, "ASSAY_TRUST_FILE="+trust),
		next, ": refused, ", "nothing was changed", "key bob, which the trust file does not list")
	storetest.Expect(t, "in force", inForce(), before)
}

func (f *testFleet) signed(t *testing.T) string {
	t.Helper()
	signed, _, err := f.backend.store.LastActivation(t.Context())
	storetest.NoError(t, err)
	return signed
}

// TestRestoredBackup goes on after a backup with an older lineup was restored: the host keeps what it runs until an
// operator activates a lineup with a number above it.
func TestRestoredBackup(t *testing.T) {
	t.Parallel()
	f := newFleet(t, 1)
	_, base, err := inForce(t.Context(), f.backend, f.dir)
	storetest.NoError(t, err)
	for _, weight := range []float64{6.5, 7} {
		storetest.Must(activateLineup(t.Context(), f.backend, f.dir, variant(base.Document, weight)))(t)
	}
	storetest.Until(t, "the host to follow", func() bool { return len(f.running(t, 3)) == 1 })
	storetest.Exec(t, f.conn, "DELETE FROM lineup_activations WHERE number > 1",
		"DELETE FROM revisions_in_force WHERE revision = 2",
		"UPDATE revisions_in_force SET until = NULL WHERE revision = 1", "NOTIFY assay, 'lineup'")
	const degraded = "lineup revision 1 was refused here, and revision 3 stays in force"
	storetest.Until(t, "the host to refuse it", func() bool {
		return strings.Contains(get(t, f.hosts[0].admin+"/readyz", ""), degraded)
	})
	if text := output(t, f.dir, f.database, "lineup", "hosts"); !strings.Contains(text,
		"its number is not above 3, which this host ran") {
		t.Errorf("lineup hosts printed\n%s", text)
	}
	for _, line := range []string{"assay_hosts 1", "assay_activation 3", "assay_activation_refused 1"} {
		if metrics := get(t, f.hosts[0].admin+"/metrics", ""); !strings.Contains(metrics, "\n"+line+"\n") {
			t.Errorf("the metrics lack %q:\n%s", line, metrics)
		}
	}
	operator := dataDir(t) // of a machine that remembers nothing
	file := writeFile(t, "lineup.json", []byte(output(t, operator, f.database, "lineup", "show", "--file")))
	wantRefusal(t, "setting a lineup", operator, f.database, nil, []string{"lineup", "set", file},
		"nothing was changed", "its number is not above 3, which this host ran")
	text := output(t, operator, f.database, "lineup", "set", file, "--above", "3", "--reason", "Restored a backup")
	if !strings.Contains(text, "Revision 1 is in force on") {
		t.Errorf("lineup set printed\n%s", text)
	}
	storetest.Expect(t, "/readyz", get(t, f.hosts[0].admin+"/readyz", ""), `{"status":"ready"}`+"\n")
	if number := storetest.Must(activation.Unverified(f.signed(t)))(t).Number; number != 4 {
		t.Errorf("activation %d is in force, want 4", number)
	}
}
