package oci

import (
	"errors"
	"testing"

	"assay/registry"
	"assay/registry/expect"
)

// Repositories and tags that are versions must name the plugin and its version. Other tags may move.
func TestNamed(t *testing.T) {
	t.Parallel()
	const digest = "sha256:0100000000000000000000000000000000000000000000000000000000000000"
	for text, want := range map[string]string{
		"r.example/probe":             "r.example/probe:1.0.0_b",
		"r.example:5000/a/b/probe":    "r.example:5000/a/b/probe:1.0.0_b",
		"r.example/probe:1.0.0_b":     "r.example/probe:1.0.0_b",
		"r.example/probe:v1.0.0_b":    "r.example/probe:v1.0.0_b",
		"r.example/probe:latest":      "r.example/probe:latest",
		"r.example/probe:1.0":         "r.example/probe:1.0",
		"r.example/probe@" + digest:   "r.example/probe@" + digest,
		"r.example/probe:1.0.0":       "",
		"r.example/probe:1.0.0_c":     "",
		"r.example/probe:v2.0.0":      "",
		"r.example/other:1.0.0_b":     "",
		"r.example/probe/other":       "",
		"r.example/probe-2@" + digest: "",
	} {
		r, err := expect.Value(ParseReference(text))(t).named("probe", "1.0.0+b")
		var refused *registry.Refusal
		expect.That(t, (want != "" || errors.As(err, &refused) && refused.Reason == registry.OtherName) &&
			(want == "" || err == nil && r.String() == want), "%s: %v, %v, want %q", text, r, err, want)
	}
	for _, text := range []string{"", "probe", "r.example/Probe", "r.example/probe@sha256:00"} {
		expect.Failure(t, expect.ErrorOf(ParseReference(text)), "%q was read", text)
	}
}

func TestLoopback(t *testing.T) {
	t.Parallel()
	for host, want := range map[string]bool{"localhost": true, "localhost:5000": true, "127.0.0.1:5000": true,
		"[::1]:5000": true, "r.example": false, "10.0.0.1:5000": false, "localhost.example": false} {
		expect.Equal(t, host, isLoopback(host), want)
	}
}
