package lineup

import "assay/registry"

// InForce returns the activation that is in force on this host, with number 0 if there is none, and the manifests of
// its layers that are not off, by the digest of the layer's module.
func (f *Follower) InForce() (a Verified, manifests map[string]registry.Manifest) {
	f.mu.Lock()
	defer f.mu.Unlock()
	manifests = map[string]registry.Manifest{}
	for _, p := range f.plugins {
		manifests[p.Digest().String()] = p.Manifest()
	}
	return f.inForce, manifests
}
