package sandbox

import (
	"fmt"

	"assay/registry"
)

// Imports returns the functions of the host that a module uses, as MODULE.NAME. The error describes the module's defect
// if it does not implement the layer interface.
func Imports(m registry.Module) ([]string, error) {
	metered, err := instrument(m)
	if err != nil {
		return nil, fmt.Errorf("reading plugin %s: %w", m.Ref(), err)
	}
	names := make([]string, len(metered.Imports))
	for i, f := range metered.Imports {
		names[i] = f.Module + "." + f.Name
	}
	return names, nil
}
