package main

import (
	"testing"

	"assay/host/rehearsal"
	"assay/registry"
	"assay/registry/project"
)

// TestPluginInspectMeasure measures a layer and compares it with one that does more for each value.
func TestPluginInspectMeasure(t *testing.T) {
	t.Parallel()
	if raceDetector {
		t.Skip("the race detector takes more memory than a process with limits may")
	}
	folder, file := newLayer(t, "measured", project.C)
	text := runs(t, 0, "plugin", "inspect", file, "--measure")
	has(t, text, "the same answers in two processes", "Scores: 0 to 50 of 0 to 50", "raises by itself: 0 of ")
	i := runsJSON[inspection](t, "plugin", "inspect", file, "--measure")
	if p := i.Passport; p == nil || p.Digest != i.Digest || p.Format != rehearsal.PassportFormat || p.MostFuel == 0 {
		t.Errorf("%+v", p)
	}
	changeLayer(t, folder, "MIN_DIGITS = 4", "MIN_DIGITS = 99")
	has(t, runs(t, 0, "plugin", "inspect", "--diff", "--measure", file, folder), "measured scores")
}

// TestPluginInspectPublished shows a published plugin, and compares two versions.
func TestPluginInspectPublished(t *testing.T) {
	t.Parallel()
	dir, database := installation(t)
	pushEmpty(t, dir, database, "one", `"entities":["domain"],"facts":[],"signals":[]`)
	pushEmpty(t, dir, database, "two", `"entities":["domain","iban"],"facts":["domain.ascii"],"signals":[]`)
	if i := outputJSON[inspection](t, dir, database, "plugin", "inspect", "one@1.0.0"); i.Plugin != "one@1.0.0" {
		t.Errorf("%+v", i)
	}
	changes := outputJSON[[]registry.ManifestChange](t, dir, database, "plugin", "inspect", "--diff", "one@1.0.0",
		"two@1.0.0")
	if len(changes) != 3 || !changes[0].Grants || !changes[1].Grants {
		t.Errorf("%+v", changes)
	}
	out, err := command(t.Context(), dir, database, "plugin", "inspect", "one@2.0.0").CombinedOutput()
	if err == nil {
		t.Error("a version that was not published is shown")
	}
	has(t, string(out), registry.ErrNoPlugin.Error())
}
