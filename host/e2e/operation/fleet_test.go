package operation

import (
	"strings"
	"syscall"
	"testing"

	"assay/host/hosttest"
	"assay/host/lineup/fleet"
	"assay/registry"
)

// A lineup is in force on every live host, and one that was killed is skipped by name. TestOperators has a host that
// refuses, and TestActivationsUnderLoad hosts that answer checks meanwhile.
func TestLineupOnTwoHosts(t *testing.T) {
	t.Parallel()
	f := hosttest.NewFleet(t, 2)
	first := hosttest.OutputJSON[registry.LineupRevision](t, f.Dir, f.Database, "lineup", "show").Lineup
	heavier := hosttest.WriteJSON(t, hosttest.Variant(first, hosttest.WeightOf(first, "iban")+0.5))

	// All switch before the command returns.
	text := hosttest.Output(t, f.Dir, f.Database, "lineup", "set", heavier)
	if strings.Count(text, ": ready") != 2 || strings.Count(text, ": switched") != 2 ||
		!strings.Contains(text, "Revision 2 is in force on 2 hosts.") {
		t.Errorf("lineup set printed\n%s", text)
	}
	if n := len(f.Running(t, 2)); n != 2 {
		t.Errorf("%d hosts run revision 2, want 2", n)
	}

	// One is killed.
	killed := f.Hosts[1]
	killed.Stop(t, syscall.SIGKILL)
	f.Silence(t, killed)
	text = hosttest.Output(t, f.Dir, f.Database, "lineup", "rollback", "--reason", "a test")
	_, skipped, found := strings.Cut(text, "Skipped, because silent: ")
	if strings.Count(text, ": switched") != 1 || !strings.Contains(text, "Revision 1 is in force on ") || !found ||
		!strings.Contains(skipped, ":"+killed.Name()) {
		t.Errorf("lineup rollback printed\n%s", text)
	}
	text = hosttest.Output(t, f.Dir, f.Database, "lineup", "set", heavier)
	if strings.Count(text, ": switched") != 1 || !strings.Contains(text, ":"+killed.Name()+": skipped") {
		t.Errorf("lineup set printed\n%s", text)
	}
	hosts := hosttest.OutputJSON[[]fleet.Host](t, f.Dir, f.Database, "lineup", "hosts")
	if len(hosts) != 2 || len(fleet.Silent(hosts)) != 1 {
		t.Errorf("lineup hosts: %+v", hosts)
	}
}
