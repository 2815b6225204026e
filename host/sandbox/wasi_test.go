package sandbox

import (
	"maps"
	"slices"
	"testing"

	"assay/registry/expect"
)

// Every function of WASI that guests may import is the sandbox's own.
func TestOfferedWASIIsImplemented(t *testing.T) {
	t.Parallel()
	offered, implemented := slices.Sorted(maps.Keys(imports[wasiModule])), slices.Sorted(maps.Keys(wasiFunctions))
	expect.That(t, slices.Equal(offered, implemented), "offered: %v, implemented: %v", offered, implemented)
}
