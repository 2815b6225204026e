package plugin

import (
	"bufio"
	"io"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"assay/host/hosttest"
	"assay/host/installation"
	"assay/host/lineup/replay"
	"assay/host/store/postgres/postgrestest"
	"assay/registry"
	"assay/registry/expect"
	"assay/registry/project"
)

// TestPluginDev changes a layer while `assay plugin dev` keeps it in shadow, and interrupts the command. It shows what
// the layer does in cases and in real checks, but no value of these.
func TestPluginDev(t *testing.T) {
	t.Parallel()
	dir, database := hosttest.DataDir(t), postgrestest.Database(t)
	host := hosttest.StartHost(t, dir, database)
	issued := expect.Value(installation.IssueKey(t.Context(), hosttest.OpenStore(t, dir, database).Store,
		installation.Unlimited(), "test"))(t)
	folder, _ := hosttest.NewLayer(t, "watched", project.C)
	inShadow := func() *registry.LineupLayer {
		return hosttest.OutputJSON[registry.LineupRevision](t, dir, database, "lineup", "show").Lineup.Layer("watched")
	}

	until, interrupt := session(t, hosttest.Command(t.Context(), dir, database, "plugin", "dev", folder))
	until("ok    a long number")
	until("signal   +20 watched:name:digits: Contains the number “20245”")
	until("log      debug: longest number: 5 digits")
	until("watched@0.1.0: 5 of 5 cases passed, 2 of 2 signals emitted")
	first := until("In shadow: watched@0.1.0+dev.")
	until("-- ")
	if l := inShadow(); l == nil || l.Runs() != registry.ModeShadow || !strings.Contains(first, l.Layer+",") {
		t.Errorf("after %q: %+v", first, l)
	}
	for _, value := range []string{"garden4711.example", "garden.example"} {
		hosttest.CheckOnce(host, issued.Secret, `{"domain":"`+value+`"}`)
	}
	until("traffic  2 checks, and 0 left out")
	until("traffic  1 of them (50%) have watched:name:digits")

	hosttest.ChangeLayer(t, folder, "MIN_DIGITS = 4", "MIN_DIGITS = 9") // a case fails
	until("FAIL  a long number")
	until("2 of 5 cases failed: what is in shadow stays")
	l := inShadow()
	expect.That(t, l != nil && strings.Contains(first, l.Layer+","), "after a failed case: %+v", l)
	hosttest.ChangeLayer(t, folder, "MIN_DIGITS = 9", "MIN_DIGITS = 5")
	second := until("In shadow: watched@0.1.0+dev.")
	expect.That(t, second != first, "again %s", second)
	until("-- ")
	all := interrupt()
	hosttest.Has(t, all, "Taking watched@0.1.0+dev.")
	expect.Equal(t, "the layer in shadow afterwards", inShadow(), nil)
	expect.That(t, !strings.Contains(all, "garden"), "it shows values of checks:\n%s", all)

	until, interrupt = session(t, hosttest.Command(t.Context(), dir, database, "plugin", "dev", folder, "--json",
		"--force", "--reason", "a trial"))
	until(`{"event":"cases","cases":{"plugin":"watched@0.1.0","cases":[`)
	until(`{"event":"shadow","plugin":"watched@0.1.0+dev.`)
	hosttest.CheckUntilComplete(host, issued.Secret, `{"domain":"garden47110.example"}`)
	until(`{"event":"traffic","traffic":{"checks":1,"left_out":0,"signals":{"watched:name:digits":1},"flips":[`)
	hosttest.Has(t, interrupt(), `{"event":"retired","plugin":"watched@0.1.0+dev.`)
	said := hosttest.Output(t, dir, database, "lineup", "show", "--history")
	expect.That(t, strings.Count(said, "a trial") == 2, "the reason is not that of both changes:\n%s", said)
	// A version of its own, so that the manifest's remains free.
	hosttest.Output(t, dir, database, "plugin", "push", folder)
	hosttest.Output(t, dir, database, "plugin", "promote", folder)
	hosttest.Output(t, dir, database, "plugin", "promote", folder, "--live")
	until, interrupt = session(t, hosttest.Command(t.Context(), dir, database, "plugin", "dev", folder, "--json"))
	until(`{"event":"skipped","reason":"watched@0.1.0 is live`)
	if all := interrupt(); strings.Contains(all, `"event":"shadow"`) {
		t.Errorf("a layer that is live is put in shadow:\n%s", all)
	}
}

// session starts a command that goes on until it is interrupted. until reads its output up to a line with a text;
// interrupt ends it and returns all its output.
func session(t *testing.T, cmd *exec.Cmd) (until func(text string) string, interrupt func() string) {
	t.Helper()
	out, in := io.Pipe()
	cmd.Stdout, cmd.Stderr = in, in
	expect.NoError(t, cmd.Start())
	ended := make(chan error, 1)
	go func() {
		ended <- cmd.Wait()
		in.Close()
	}()
	var all strings.Builder
	lines := bufio.NewScanner(out)
	lines.Buffer(nil, 1<<20) // a report is one line
	until = func(text string) string {
		t.Helper()
		for lines.Scan() {
			all.WriteString(lines.Text() + "\n")
			if strings.Contains(lines.Text(), text) {
				return lines.Text()
			}
		}
		t.Fatalf("the output ended before %q:\n%s", text, &all)
		return ""
	}
	return until, func() string {
		t.Helper()
		expect.NoError(t, cmd.Process.Signal(syscall.SIGINT))
		for lines.Scan() {
			all.WriteString(lines.Text() + "\n")
		}
		err := <-ended
		expect.That(t, err == nil, "it ended with %v:\n%s", err, &all)
		return all.String()
	}
}

// TestTrafficOfALayer checks what is shown of a report: counts of the layer alone.
func TestTrafficOfALayer(t *testing.T) {
	t.Parallel()
	report := &replay.ShadowReport{LeftOut: 4, Emitted: []replay.EmittedSignals{
		{Layer: "mine", Checks: 8, Signals: map[string]int{"mine:a:b": 2, "mine:a:c": 8}},
		{Layer: "other", Checks: 8, Signals: map[string]int{"other:a:b": 2}},
	}, Report: &replay.Report{
		Signals: []replay.SignalFlips{
			{Type: "domain", From: "allow", To: "review", Layer: "mine", Code: "mine:a:b", Flips: 2},
			{Type: "domain", From: "allow", To: "block", Layer: "other", Code: "other:a:b", Flips: 1}},
		Failures: []replay.LayerFailures{{Layer: "mine", Reason: "trap", Checks: 3}, {Layer: "other", Checks: 1}},
	}}
	const want = `traffic  8 checks, and 4 left out
traffic  8 of them (100%) have mine:a:c
traffic  2 of them (25%) have mine:a:b
traffic  2 domain verdicts would go from allow to review, mostly for mine:a:b
traffic  3 calls failed (trap)
`
	expect.Equal(t, "traffic", trafficOf("mine", report).String(), want)
}
