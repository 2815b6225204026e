package builtin

import (
	"log/slog"
	"testing"

	"assay/registry"
	"assay/registry/expect"
)

// A release contains what a host builds from the same source, byte for byte (`just release-check`); others, nothing.
func TestModules(t *testing.T) {
	t.Parallel()
	modules, want := expect.Value(Modules())(t), map[string]registry.Digest{}
	if Embedded {
		source := expect.Value(registry.FindSource(".", nil, slog.Default()))(t)
		want = digests(expect.Value(source.BuildAll(t.Context(), nil))(t))
	}
	expect.NoDiff(t, "the modules", want, digests(modules))
}

func digests(modules []registry.Module) map[string]registry.Digest {
	all := map[string]registry.Digest{}
	for _, m := range modules {
		all[m.Ref()] = m.Digest
	}
	return all
}
