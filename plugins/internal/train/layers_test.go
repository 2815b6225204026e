package train

import (
	"testing"

	"assay/host/entity"
	"assay/host/measure/eval"
	"assay/registry/expect"
)

// A layer is built with the given data files, not with those in its folder.
func TestLayersReplaceFiles(t *testing.T) {
	t.Parallel()
	rows := []eval.Row{{Type: entity.Email, Value: "jane@box.example.com"}, {Type: entity.Email, Value: "jane@"}}
	layers := expect.Value(NewLayers(t.TempDir(), rows))(t)
	for families, want := range map[string]int{"": 0, "example.com\n": 92} {
		scores, valid, err := layers.Score("email", map[string]string{"families.txt": families})
		expect.NoError(t, err)
		expect.That(t, scores[0] == want && valid[0] && !valid[1],
			"scores %v, valid %v with the families %q, want %d for a valid and an invalid one", scores, valid, families,
			want)
	}
}

// Errors contain the compiler's output.
func TestLayersReportBuildErrors(t *testing.T) {
	t.Parallel()
	layers := expect.Value(NewLayers(t.TempDir(), nil))(t)
	_, _, err := layers.Score("email", map[string]string{"score.go": "package main\n"})
	expect.ErrorText(t, "error", err, "undefined: answer")
}
