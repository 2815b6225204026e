package lineup

// InForce returns the activation that is in force on this host, with number 0 if there is none, and the budget of fuel
// that the manifest of each of its open layers names, by the digest of the layer's module.
func (f *Follower) InForce() (a Verified, budgets map[string]int64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	budgets = map[string]int64{}
	for _, p := range f.plugins {
		budgets[p.Digest().String()] = p.Manifest().BudgetFuel
	}
	return f.inForce, budgets
}
