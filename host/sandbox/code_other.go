//go:build !linux

package sandbox

import "github.com/tetratelabs/wazero"

// mapCode does nothing: only Linux has files without a name.
func mapCode(wazero.CompiledModule, string) error { return nil }

func forgetCode(wazero.CompiledModule) error { return nil }
