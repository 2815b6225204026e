package installation

import (
	"log/slog"
	"runtime/debug"
	"strings"
	"testing"

	"assay/registry/expect"
)

func TestUnchangedDNSServersAreNotLogged(t *testing.T) {
	t.Parallel()
	var log strings.Builder
	l := Lookups{log: slog.New(slog.NewTextHandler(&log, nil))}
	expect.NoError(t, l.VerifyDNS(t.Context()))
	expect.Equal(t, "log", log.String(), "")
}

func TestRevision(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		settings []debug.BuildSetting
		want     string
	}{
		"not recorded": {nil, "unknown"},
		"clean": {[]debug.BuildSetting{{Key: "vcs.revision", Value: "4f1"}, {Key: "vcs.modified", Value: "false"}},
			"4f1"},
		"modified": {[]debug.BuildSetting{{Key: "vcs.revision", Value: "4f1"}, {Key: "vcs.modified", Value: "true"}},
			"4f1, modified"},
	} {
		expect.Equal(t, name, revisionOf(test.settings), test.want)
	}
}
