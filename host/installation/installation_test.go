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
	expect.Equal(t, "not recorded", revisionOf(nil), "unknown")
	for modified, want := range map[string]string{"false": "4f1", "true": "4f1, modified"} {
		settings := []debug.BuildSetting{{Key: "vcs.revision", Value: "4f1"}, {Key: "vcs.modified", Value: modified}}
		expect.Equal(t, "modified: "+modified, revisionOf(settings), want)
	}
}

func TestInvalidSettings(t *testing.T) {
	t.Parallel()
	for setting, all := range map[string][]Config{
		"ASSAY_URL":    {{URL: "https://a.example/?a=b"}, {URL: "https://a.example#a"}, {URL: "https://me@a.example"}},
		"ASSAY_LISTEN": {{Listen: "127.0.0.1:99999"}, {Listen: ":no-such-service"}},
		"ASSAY_DNS":    {{DNS: []string{"192.0.2.1:99999"}}},
		"ASSAY_CHAINS": {{}}, "ASSAY_DATABASE_CONNECTIONS": {{}},
	} {
		for _, cfg := range all {
			expect.ErrorText(t, setting, cfg.Validate(), setting+": ")
		}
	}
	err := (&Config{URL: "https://A.example:8443/", Listen: "[::1]:http", DataDir: ".", DatabaseConnections: 12,
		Chains: 1}).Validate()
	expect.NoError(t, err)
}
