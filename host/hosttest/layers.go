package hosttest

import (
	"context"
	"slices"
	"testing"

	"assay/host/check"
	lineups "assay/host/lineup"
	"assay/registry"
)

// Members opens layers of this checkout in a sandbox.
func Members(t testing.TB, names []string) []check.Member {
	t.Helper()
	modules := BuiltLayers(t)
	box := LayerSandbox(t)
	document, err := registry.DefaultLineup()
	if err != nil {
		t.Fatal(err)
	}
	var all []check.Member
	for _, m := range modules {
		if !slices.Contains(names, m.Manifest.Name) {
			continue
		}
		plugin, err := box.OpenShared(t.Context(), m)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = plugin.Close(context.Background()) })
		i := slices.IndexFunc(document.Layers,
			func(item registry.LineupLayer) bool { return item.Layer == m.Manifest.Name })
		all = append(all, lineups.NewMember(document.Layers[i], plugin))
	}
	if len(all) != len(names) {
		t.Fatalf("%d of the layers %v were found", len(all), names)
	}
	return all
}
