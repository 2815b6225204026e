package installation_test

import (
	"path/filepath"
	"testing"

	"assay/host/entity"
	"assay/host/hosttest"
	"assay/host/installation"
	"assay/host/internal/terminal"
	"assay/host/sandbox"
	"assay/registry"
	"assay/registry/expect"
)

// A checker whose lookups cannot be opened is an error, and its lineup is closed.
func TestCheckerWithoutLookups(t *testing.T) {
	t.Parallel()
	module := expect.Value(registry.OpenModule(hosttest.Packed(t, "probe", hosttest.EmptyLayer,
		`"class":"finding","entities":["iban"],"facts":[],"signals":[]`)))(t)
	lineup := hosttest.WriteFile(t, "lineup.json", []byte(`{"bias":0,"bands":{"review":40,"block":70},
		"layers":[{"layer":"probe","weight":1}]}`))
	c := &installation.Command{Terminal: terminal.Silent, Config: &installation.Config{DNS: []string{"127.0.0.1:1"},
		MMDBASN: filepath.Join(t.TempDir(), "missing.mmdb")}}
	o := installation.NewBuiltInOpener(c, []registry.Module{module},
		sandbox.Config{Logger: installation.QuietLog(c.Terminal)})
	checker, _, err := o.Checker(t.Context(), lineup, entity.IBAN)
	expect.That(t, checker == nil, "there is a checker")
	expect.ErrorText(t, "Checker", err, "ASSAY_MMDB_ASN")
}
