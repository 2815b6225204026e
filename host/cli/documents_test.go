package cli

import (
	"reflect"
	"strings"
	"testing"

	"assay/host/hosttest"
	"assay/host/installation"
	"assay/registry/expect"
)

// TestReadme checks that the README shows the two commands, and that docs/settings.md lists every setting.
func TestReadme(t *testing.T) {
	t.Parallel()
	readme := hosttest.ReadText(t, "../../README.md")
	hosttest.Has(t, readme, "\ngo run ./host", "\ngo test ./...", "POST /api/check")
	settings := hosttest.ReadText(t, "../../docs/settings.md")
	for _, f := range reflect.VisibleFields(reflect.TypeFor[installation.Config]()) {
		env, help := f.Tag.Get("env"), helpTexts[strings.Trim(f.Tag.Get("help"), "${}")]
		expect.That(t, !f.IsExported() || strings.HasSuffix(help, "for tests.") ||
			strings.Contains(settings, "`"+env+"`"), "docs/settings.md does not list %s", env)
	}
}
