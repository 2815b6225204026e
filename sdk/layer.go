package sdk

// Layer is the one function an author writes. It must depend on nothing but the facts of the check: the host gives it a
// frozen clock, fixed randomness and no files, and keeps nothing between two calls that it could rely on.
type Layer func(*Check) Outcome

// Get returns the named fact, or "" when it is absent. Absent is never risky: it means "not known".
func (c *Check) Get(name string) string {
	value, _ := c.Fact(name)
	return value
}

// Is says whether the named yes-or-no fact is known and yes.
func (c *Check) Is(name string) bool { return c.Get(name) == "yes" }

// Not says whether the named yes-or-no fact is known and no.
func (c *Check) Not(name string) bool { return c.Get(name) == "no" }

// Fail ends the layer's work with a reason for its author's log. The host treats the layer as lost for this check.
func (c *Check) Fail(reason string) Outcome {
	c.Log(Error, reason)
	return Failed
}
