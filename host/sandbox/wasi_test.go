package sandbox

import (
	"maps"
	"slices"
	"testing"
)

// Every function of WASI that guests may import is the sandbox's own.
func TestOfferedWASIIsImplemented(t *testing.T) {
	t.Parallel()
	offered, implemented := slices.Sorted(maps.Keys(imports[wasiModule])), slices.Sorted(maps.Keys(wasiFunctions))
	if !slices.Equal(offered, implemented) {
		t.Errorf("offered: %v, implemented: %v", offered, implemented)
	}
}
