package installation

import (
	"cmp"
	"fmt"
	"runtime"
	"runtime/debug"
	"strings"

	"assay/registry/builtin"
)

// Version is the version of this program.
const Version = "0.1.0"

// VersionText describes this program for `assay --version`.
func VersionText() string {
	layers := "built from the source"
	if builtin.Embedded {
		layers = "built in"
	}
	return fmt.Sprintf("assay %s\nrevision  %s\ngo        %s %s/%s\nlayers    %s", Version, Revision(),
		runtime.Version(), runtime.GOOS, runtime.GOARCH, layers)
}

// VersionLine is the version with the commit, if that is known, in short.
func VersionLine() string {
	commit, modified, _ := strings.Cut(Revision(), ",")
	if commit == "unknown" {
		return Version
	}
	line := Version + " (" + commit[:min(len(commit), 7)]
	if modified != "" {
		line += "," + modified
	}
	return line + ")"
}

// Revision returns the commit that the program was built from, or "unknown". `go run` and `go test` do not record it.
func Revision() string {
	if info, ok := debug.ReadBuildInfo(); ok {
		return revisionOf(info.Settings)
	}
	return revisionOf(nil)
}

func revisionOf(settings []debug.BuildSetting) string {
	values := map[string]string{}
	for _, s := range settings {
		values[s.Key] = s.Value
	}
	revision := cmp.Or(values["vcs.revision"], "unknown")
	if values["vcs.modified"] == "true" {
		revision += ", modified"
	}
	return revision
}
