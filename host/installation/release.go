//go:build release

package installation

import (
	_ "golang.org/x/crypto/x509roots/fallback"
)
