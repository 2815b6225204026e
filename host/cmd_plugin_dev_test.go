package main

import (
	"bufio"
	"io"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"assay/host/postgres/postgrestest"
	"assay/host/replay"
	"assay/host/store/storetest"
	"assay/registry"
	"assay/registry/project"
)

// TestPluginDev changes a layer while `assay plugin dev` keeps it in shadow, and interrupts the command. It shows what
// the layer does in cases and in real checks, but no value of these.
func TestPluginDev(t *testing.T) {
	t.Parallel()
	dir, database := dataDir(t), postgrestest.Database(t)
	host := startHost(t, dir, database)
	issued := storetest.Must(issueKey(t.Context(), openStore(t, dir, database).store, unlimited(), "test"))(t)
	folder, _ := newLayer(t, "watched", project.C)
	inShadow := func() *registry.LineupLayer {
		return outputJSON[registry.LineupRevision](t, dir, database, "lineup", "show").Lineup.Layer("watched")
	}

	cmd := command(t.Context(), dir, database, "plugin", "dev", folder)
	out, in := io.Pipe()
	cmd.Stdout, cmd.Stderr = in, in
	storetest.NoError(t, cmd.Start())
	ended := make(chan error, 1)
	go func() {
		ended <- cmd.Wait()
		in.Close()
	}()
	var all strings.Builder
	lines := bufio.NewScanner(out)
	until := func(text string) string {
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
		checkUntilComplete(host, issued.Secret, `{"domain":"`+value+`"}`)
	}
	until("traffic  2 checks, and 0 left out")
	until("traffic  1 of them (50%) have watched:name:digits")

	changeLayer(t, folder, "MIN_DIGITS = 4", "MIN_DIGITS = 9") // a case fails
	until("FAIL  a long number")
	until("2 of 5 cases failed: what is in shadow stays")
	if l := inShadow(); l == nil || !strings.Contains(first, l.Layer+",") {
		t.Errorf("after a failed case: %+v", l)
	}
	changeLayer(t, folder, "MIN_DIGITS = 9", "MIN_DIGITS = 5")
	if second := until("In shadow: watched@0.1.0+dev."); second == first {
		t.Errorf("again %s", second)
	}
	until("-- ")
	storetest.NoError(t, cmd.Process.Signal(syscall.SIGINT))
	until("Taking watched@0.1.0+dev.")
	for lines.Scan() {
		all.WriteString(lines.Text() + "\n")
	}
	if err := <-ended; err != nil {
		t.Errorf("it ended with %v:\n%s", err, &all)
	}
	if l := inShadow(); l != nil {
		t.Errorf("afterwards: %+v", l)
	}
	if strings.Contains(all.String(), "garden") {
		t.Errorf("it shows values of checks:\n%s", &all)
	}
	// A version of its own, so that the manifest's remains free.
	output(t, dir, database, "plugin", "push", folder)
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
	if got := describeTraffic("mine", report); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

// TestAuthor goes from an empty folder to a live layer in C. A release is tested so in all languages.
func TestAuthor(t *testing.T) {
	t.Parallel()
	newLayer(t, "digits", project.C) // or it skips
	a, dir, database := newAuthor(t), dataDir(t), postgrestest.Database(t)
	cmd := command(t.Context(), dir, database, "c")
	cmd.Path = storetest.Must(filepath.Abs(filepath.Join("..", ".ci", "author")))(t)
	cmd.Env = append(cmd.Env, "PATH="+a.path, asCommand+"=")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	} else {
		has(t, string(out), "digits-c@0.1.0: none to shadow.", "digits-c@0.1.0: shadow to live.")
	}
}
