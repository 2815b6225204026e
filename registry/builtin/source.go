//go:build !release

package builtin

import "embed"

// Embedded tells whether this program contains the first-party modules.
const Embedded = false

var files embed.FS
