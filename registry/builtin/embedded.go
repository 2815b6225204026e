//go:build release

package builtin

import "embed"

// Embedded tells whether this program contains the first-party modules.
const Embedded = true

//go:embed built-by-just-release/*.wasm
var files embed.FS
