package sdk

// Layer is the one function that an author writes. Its answer must depend only on the check's facts: the clock is
// frozen, randomness is fixed, there are no files, and no state survives from one call to the next.
type Layer func(*Check) Outcome

// Get returns the named fact, or "" if it is absent. Absent means "not known" and must never add risk.
func (c *Check) Get(name string) string {
	value, _ := c.Fact(name)
	return value
}

// Count returns the named fact as a number of at most nine digits. It is not known if it is absent or anything else.
func (c *Check) Count(name string) (n int, known bool) {
	digits := c.Get(name)
	if len(digits) == 0 || len(digits) > 9 || digits[0] == '0' && len(digits) > 1 {
		return 0, false
	}
	for i := range len(digits) {
		digit := int(digits[i]) - '0'
		if digit < 0 || digit > 9 {
			return 0, false
		}
		n = n*10 + digit
	}
	return n, true
}

// Is reports whether the named yes-or-no fact is known and yes.
func (c *Check) Is(name string) bool { return c.Get(name) == "yes" }

// Not reports whether the named yes-or-no fact is known and no.
func (c *Check) Not(name string) bool { return c.Get(name) == "no" }

// Fail logs a reason for the layer's author and returns Failed. The host then decides the check without this layer.
func (c *Check) Fail(reason string) Outcome {
	c.Log(Error, reason)
	return Failed
}
