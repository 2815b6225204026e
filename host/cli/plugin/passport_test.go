package plugin

import (
	"testing"

	"assay/host/hosttest"
	"assay/host/installation"
	"assay/host/lineup/rehearsal"
	"assay/host/store/postgres/postgrestest"
	"assay/registry"
	"assay/registry/activation"
	"assay/registry/expect"
	"assay/registry/project"
)

// TestPluginInspectMeasure measures a layer and compares it with one that does more for each value.
func TestPluginInspectMeasure(t *testing.T) {
	t.Parallel()
	folder, file := hosttest.NewLayer(t, "measured", project.C)
	text := hosttest.Runs(t, 0, "plugin", "inspect", file, "--measure")
	hosttest.Has(t, text, "the same answers in two processes", "Scores: 0 to 50 of 0 to 50", "raises by itself: 0 of ")
	i := runsJSON[inspection](t, "plugin", "inspect", file, "--measure")
	if p := i.Passport; p == nil || p.Digest != i.Digest || p.Format != rehearsal.PassportFormat || p.MostFuel == 0 {
		t.Errorf("%+v", p)
	}
	hosttest.Has(t, text, "\nNot signed.\n")
	expect.That(t, i.Signature == nil, "signed by %+v", i.Signature)
	hosttest.ChangeLayer(t, folder, "MIN_DIGITS = 4", "MIN_DIGITS = 99")
	hosttest.Has(t, hosttest.Runs(t, 0, "plugin", "inspect", "--diff", "--measure", file, folder), "measured scores")
}

// TestPluginInspectPublished shows a published plugin, and compares two versions.
func TestPluginInspectPublished(t *testing.T) {
	t.Parallel()
	dir, database := hosttest.DataDir(t), postgrestest.Database(t)
	hosttest.PushEmpty(t, dir, database, "one", `"entities":["domain"],"facts":[],"signals":[]`)
	hosttest.PushEmpty(t, dir, database, "two", `"entities":["domain","iban"],"facts":["domain.ascii"],"signals":[]`)
	shown := hosttest.OutputJSON[inspection](t, dir, database, "plugin", "inspect", "one@1.0.0")
	expect.That(t, shown.Plugin == "one@1.0.0" && shown.MeasuredBy == installation.OperatorKeyName &&
		shown.Passport != nil && shown.Passport.Digest == shown.Digest, "%+v", shown)
	s := shown.Signature
	expect.That(t, s != nil && *s == (pluginSignature{Key: installation.OperatorKeyName, Role: activation.Operator}),
		"signed by %+v", s)
	changes := hosttest.OutputJSON[[]registry.ManifestChange](t, dir, database, "plugin", "inspect", "--diff",
		"one@1.0.0", "two@1.0.0")
	expect.That(t, len(changes) >= 3 && changes[0].Grants && changes[1].Grants && !changes[2].Grants, "%+v", changes)
	hosttest.WantRefusal(t, "showing what was not published", dir, database, nil,
		[]string{"plugin", "inspect", "one@2.0.0"}, registry.ErrNoPlugin.Error())

	// The passport of another plugin is refused.
	b := hosttest.OpenStore(t, dir, database)
	two := expect.Value(b.Store.Plugin(t.Context(), "two", "1.0.0"))(t)
	one := expect.Value(b.Store.Plugin(t.Context(), "one", "1.0.0"))(t)
	m := expect.Value(b.Store.Module(t.Context(), one.Digest))(t)
	notes := expect.Value(b.Store.PluginNotes(t.Context(), two.Digest))(t)
	delete(notes, registry.NoteSignature)
	expect.NoError(t, b.Store.PublishPlugin(t.Context(), m, "1.0.0", "", notes))
	hosttest.WantRefusal(t, "showing another plugin's passport", dir, database, nil,
		[]string{"plugin", "inspect", "one@1.0.0"}, "it is that of two@1.0.0")
}
