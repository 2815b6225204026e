// Package operation starts, watches, backs up and restores hosts, as operators do.
package operation

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"assay/host/hosttest"
	"assay/host/installation"
	"assay/host/lineup/fleet"
	"assay/host/store/postgres/postgrestest"
	"assay/host/store/storetest"
	"assay/registry"
	"assay/registry/activation"
	"assay/registry/expect"
)

func TestMain(m *testing.M) { os.Exit(hosttest.Main(m)) }

// TestFirstStart starts hosts without a trust file: the first one makes it, and others need a copy.
func TestFirstStart(t *testing.T) {
	t.Parallel()
	dir, database := hosttest.DataDir(t), hosttest.NewDatabase(t)
	file := func(name string) string { return filepath.Join(dir, name) }
	expect.NoError(t, os.Remove(file("trust")))
	expect.NoError(t, os.Remove(file("operator.key")))
	hosttest.StartHost(t, dir, database).Stop(t, syscall.SIGTERM)
	for _, name := range []string{"operator.key", "trust"} {
		expect.Equal(t, "the mode of "+name, expect.Value(os.Stat(file(name)))(t).Mode(), 0o600)
	}
	trust := hosttest.ReadText(t, file("trust"))
	expect.That(t, strings.Count(trust, "\noperator assay/operator+") == 1 && strings.Count(trust,
		"\nhost assay/host+") == 1, "the trust file is\n%s", trust)
	b := hosttest.OpenStore(t, dir, database)
	signed, _, err := b.Store.LastActivation(t.Context())
	expect.NoError(t, err)
	first := expect.Value(expect.Value(activation.ParseTrust(trust))(t).Open(signed))(t)
	expect.That(t, first.Number == 1 && first.Author == activation.BuiltIn && first.Role == activation.Operator,
		"the first activation is %+v", first)
	expect.Equal(t, "the host remembers", hosttest.ReadText(t, file("activation")), fmt.Sprintf("1 %s\n", first.Hash))

	// A first start that was killed before it wrote the trust file goes on where it was.
	expect.NoError(t, os.Remove(file("trust")))
	hosttest.StartHost(t, dir, database).Stop(t, syscall.SIGTERM)
	expect.Equal(t, "the trust file", hosttest.ReadText(t, file("trust")), trust)
	again, _, err := b.Store.LastActivation(t.Context())
	expect.That(t, err == nil && again == signed, "the last activation is %s, %v", again, err)

	// A second host has the secret alone.
	second := hosttest.DataDir(t)
	expect.NoError(t, os.Remove(filepath.Join(second, "operator.key")))
	expect.NoError(t, os.Remove(filepath.Join(second, "trust")))
	_, err = hosttest.TryHost(t, hosttest.Command(t.Context(), second, database))
	expect.ErrorText(t, "a second host without a trust file", err, "copy it from a host that runs")
	expect.Failure(t, expect.ErrorOf(os.Stat(filepath.Join(second, "operator.key"))), "it made an operator's key")
	expect.NoError(t, os.WriteFile(filepath.Join(second, "trust"), []byte(trust), 0o600))
	host := hosttest.StartHost(t, second, database)
	expect.Equal(t, "/readyz", hosttest.Get(t, host.Admin+"/readyz", ""), `{"status":"ready"}`+"\n")
	hosttest.WantRefusal(t, "lineup set without the operator's key", second, database, nil,
		[]string{"lineup", "set", hosttest.WriteJSON(t, expect.Value(b.Store.ActiveLineup(t.Context()))(t).Lineup)},
		"set ASSAY_OPERATOR_KEY to its file")
}

// TestOperators changes the lineup of two hosts as operators do who do not know of each other, and with keys that hosts
// do not trust. A host that was killed is skipped by name.
func TestOperators(t *testing.T) {
	t.Parallel()
	f := hosttest.NewFleet(t, 2)
	show := func(name string, weight float64) string {
		t.Helper()
		var l registry.LineupDocument
		expect.NoError(t, json.Unmarshal([]byte(hosttest.Output(t, f.Dir, f.Database, "lineup", "show", "--file")), &l))
		base := l.Base
		if weight != 0 {
			l = hosttest.Variant(l, weight)
			l.Base = base
		}
		return hosttest.WriteFile(t, name, expect.Value(json.Marshal(l))(t))
	}
	inForce := func() string {
		a := expect.Value(activation.Unverified(f.Signed(t)))(t)
		return fmt.Sprintf("activation %d, revision %d", a.Number, a.Lineup.Revision)
	}
	set := func(file string) []string { return []string{"lineup", "set", file, "--force", "--reason", "a test"} }

	// A file that was not changed is the lineup in force. A derived one does not replace what came after its base.
	stale := show("stale.json", 6.5)
	text := hosttest.Output(t, f.Dir, f.Database, set(show("unchanged.json", 0))...)
	expect.That(t, strings.Contains(text, "Revision 1 is in force on") && !strings.Contains(text, "warning"),
		"setting what is in force printed\n%s", text)
	expect.Equal(t, "in force", inForce(), "activation 2, revision 1")
	hosttest.Output(t, f.Dir, f.Database, set(show("changed.json", 7))...)
	expect.Equal(t, "in force", inForce(), "activation 3, revision 2")
	hosttest.WantRefusal(t, "setting a stale file", f.Dir, f.Database, nil, set(stale),
		"derives from another activation than 3",
		"Changed in force by", "(activation 3):", "Changed by the file:", "graph: weight")

	// A new key is refused by the host that does not trust it, before anything is in force.
	key := filepath.Join(t.TempDir(), "bob.key")
	line := hosttest.Output(t, f.Dir, f.Database, "lineup", "key", key, "--name", "bob")
	expect.That(t, strings.HasPrefix(line, "operator bob+") && strings.Count(line, "\n") == 1, "lineup key printed %q",
		line)
	expect.Equal(t, "the mode of the key", expect.Value(os.Stat(key))(t).Mode(), 0o600)
	hosttest.WantRefusal(t, "making a key again", f.Dir, f.Database, nil, []string{"lineup", "key", key},
		"exists already")
	next, env := set(show("next.json", 8)), []string{"ASSAY_OPERATOR_KEY=" + key}
	trust := hosttest.WriteFile(t, "trust", []byte(hosttest.ReadText(t, filepath.Join(f.Dir, "trust"))+line))
	hosttest.WantRefusal(t, "a key that the host does not trust", f.Dir, f.Database,
		append(env, "ASSAY_TRUST_FILE="+trust),
		next, ": refused, ", "nothing was changed", "key bob, which the trust file does not list")
	expect.Equal(t, "in force", inForce(), "activation 3, revision 2")
	skipSilentHost(t, f, next, func() []string { return set(show("last.json", 9)) })
}

// skipSilentHost sets a lineup, kills a host, and then goes back and on without it.
func skipSilentHost(t *testing.T, f *hosttest.TestFleet, next []string, last func() []string) {
	t.Helper()
	hosttest.Has(t, hosttest.Output(t, f.Dir, f.Database, next...), "in force on 2 hosts.")
	killed := f.Hosts[1]
	killed.Stop(t, syscall.SIGKILL)
	f.Silence(t, killed)
	text := hosttest.Output(t, f.Dir, f.Database, "lineup", "rollback", "--reason", "a test")
	_, skipped, _ := strings.Cut(text, "Skipped, because silent: ")
	expect.That(t, strings.Count(text, ": switched") == 1 && strings.Contains(skipped, ":"+killed.Name()),
		"lineup rollback printed\n%s", text)
	hosttest.Has(t, hosttest.Output(t, f.Dir, f.Database, last()...), ":"+killed.Name()+": skipped")
	hosts := hosttest.OutputJSON[[]fleet.Host](t, f.Dir, f.Database, "lineup", "hosts")
	expect.That(t, len(hosts) == 2 && len(fleet.Silent(hosts)) == 1, "lineup hosts: %+v", hosts)
}

// TestAuthorityOfCommands checks whom commands trust if the trust file is missing or cannot be read.
func TestAuthorityOfCommands(t *testing.T) {
	t.Parallel()
	dir := hosttest.OwnSecrets(t, hosttest.DataDir(t))
	b := hosttest.OpenStore(t, dir, postgrestest.Database(t))
	authority := func() error {
		return expect.ErrorOf(b.Authority(t.Context(), &installation.Config{DataDir: dir}))
	}
	file := filepath.Join(dir, "trust")
	expect.NoError(t, errors.Join(os.Remove(file), authority())) // the operator here signed what is in force
	expect.NoError(t, os.Remove(filepath.Join(dir, "operator.key")))
	expect.ErrorText(t, "without keys", authority(), "copy it from a host that runs")
	expect.NoError(t, os.WriteFile(file, []byte("nonsense"), 0o600))
	expect.Failure(t, authority(), "a trust file of nonsense was read")
}

// TestRestoredBackup: after an older backup, the host keeps what it runs until an operator activates a higher number.
func TestRestoredBackup(t *testing.T) {
	t.Parallel()
	f := hosttest.NewFleet(t, 1)
	_, base, err := hosttest.InForce(t.Context(), f.Backend, f.Dir)
	expect.NoError(t, err)
	for _, weight := range []float64{6.5, 7} {
		expect.Value(hosttest.ActivateLineup(t.Context(), f.Backend, f.Dir, hosttest.Variant(base.Document, weight)))(t)
	}
	expect.Until(t, "the host to follow", func() bool { return len(f.Running(t, 3)) == 1 })
	storetest.Exec(t, f.Conn, "DELETE FROM lineup_activations WHERE number > 1",
		"DELETE FROM revisions_in_force WHERE revision = 2",
		"UPDATE revisions_in_force SET until = NULL WHERE revision = 1", "NOTIFY assay, 'lineup'")
	const degraded = "lineup revision 1 was refused here, and revision 3 stays in force"
	expect.Until(t, "the host to refuse it", func() bool {
		return strings.Contains(hosttest.Get(t, f.Hosts[0].Admin+"/readyz", ""), degraded)
	})
	hosttest.Has(t, hosttest.Output(t, f.Dir, f.Database, "lineup", "hosts"),
		"its number is not above 3, which this host ran")
	for _, line := range []string{"assay_hosts 1", "assay_activation 3", "assay_activation_refused 1"} {
		hosttest.Has(t, hosttest.Get(t, f.Hosts[0].Admin+"/metrics", ""), "\n"+line+"\n")
	}
	operator := hosttest.DataDir(t) // of a machine that remembers nothing
	file := hosttest.WriteFile(t, "lineup.json", []byte(hosttest.Output(t, operator, f.Database, "lineup", "show",
		"--file")))
	hosttest.WantRefusal(t, "setting a lineup", operator, f.Database, nil, []string{"lineup", "set", file},
		"nothing was changed", "its number is not above 3, which this host ran")
	text := hosttest.Output(t, operator, f.Database, "lineup", "set", file, "--above", "3", "--reason",
		"Restored a backup")
	hosttest.Has(t, text, "Revision 1 is in force on")
	expect.Equal(t, "/readyz", hosttest.Get(t, f.Hosts[0].Admin+"/readyz", ""), `{"status":"ready"}`+"\n")
	expect.Equal(t, "the activation in force", expect.Value(activation.Unverified(f.Signed(t)))(t).Number, 4)
}

// TestIdleHosts counts what idle hosts on 32 chains ask of the database: fewer than 10 statements a second in all, and
// 3 for each host. No added one looks for contributions to the graph, events or privacy requests: they take turns.
func TestIdleHosts(t *testing.T) {
	t.Parallel()
	const hosts, length = 3, 5 * time.Second
	f := hosttest.NewFleet(t, hosts)
	storetest.Exec(t, f.Conn, `INSERT INTO audit_heads (chain, seq, hash)
			SELECT n, 0, sha256(convert_to('assay audit chain ' || n || ', version 1', 'UTF8'))
			FROM generate_series(1, 31) AS n`, "INSERT INTO graph_progress (chain) SELECT generate_series(1, 31)")
	var mu sync.Mutex
	sent := map[string]int{}
	<-time.After(3 * time.Second) // until the trees of the new chains begin, and each host knows the others
	for _, p := range f.Proxies {
		p.Set(func(statement string) storetest.Fate {
			mu.Lock()
			defer mu.Unlock()
			sent[strings.Join(strings.Fields(statement), " ")]++
			return storetest.Passes
		}, false)
	}
	<-time.After(length)
	mu.Lock()
	defer mu.Unlock()
	all := 0
	of := func(text string) (n int) {
		for statement, times := range sent {
			if strings.Contains(statement, text) {
				n += times
			}
		}
		return n
	}
	for statement, times := range sent {
		if statement != "" { // of the protocol
			all += times
			t.Logf("%d times: %.110s", times, statement)
		}
	}
	seconds := int(length / time.Second)
	expect.That(t, all > 0 && all < (10+3*hosts)*seconds, "%d idle hosts sent %d statements in %d s", hosts, all,
		seconds)
	for text, most := range map[string]int{"graph_contributions": 2, "webhook_events": 5, "subject_requests": 2} {
		expect.That(t, of(text) < most*seconds, "%d hosts read %s %d times in %d s", hosts, text, of(text), seconds)
	}
}
