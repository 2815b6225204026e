package main

import (
	"cmp"
	"fmt"
	"runtime"
	"runtime/debug"
	"strings"

	"assay/registry/builtin"
)

const version = "0.1.0"

// versionText describes this program for `assay --version`.
func versionText() string {
	layers := "built from the source"
	if builtin.Embedded {
		layers = "built in"
	}
	return fmt.Sprintf("assay %s\nrevision  %s\ngo        %s %s/%s\nlayers    %s", version, revision(buildSettings()),
		runtime.Version(), runtime.GOOS, runtime.GOARCH, layers)
}

// versionLine is the version with the commit, if that is known, in short.
func versionLine() string {
	commit, modified, _ := strings.Cut(revision(buildSettings()), ",")
	if commit == "unknown" {
		return version
	}
	line := version + " (" + commit[:min(len(commit), 7)]
	if modified != "" {
		line += "," + modified
	}
	return line + ")"
}

func buildSettings() []debug.BuildSetting {
	if info, ok := debug.ReadBuildInfo(); ok {
		return info.Settings
	}
	return nil
}

// revision returns the commit that the program was built from, or "unknown". `go run` and `go test` do not record it.
func revision(settings []debug.BuildSetting) string {
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
