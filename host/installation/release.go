//go:build release

package installation

// A release may run where no certificates of authorities are installed, such as in an empty container. It then verifies
// the servers of registries, lists and webhooks with Mozilla's certificates, as of the dependency's last update.
import _ "golang.org/x/crypto/x509roots/fallback"
