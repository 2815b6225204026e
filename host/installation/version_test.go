package installation

import (
	"runtime/debug"
	"testing"

	"assay/registry/expect"
)

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
