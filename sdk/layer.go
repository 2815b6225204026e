package sdk

// Layer is the one function that an author writes. Its answer must depend only on the check's facts: the clock is
// frozen, randomness is fixed, there are no files, and no state survives from one call to the next.
type Layer func(*Check) Outcome

// Each fact of ABI.md has a constant, such as [RDAPAgeDays]. Its type says how to read the fact, so that neither a
// misspelt name nor a number read as a text compiles. TextFact(RDAPAgeDays) reads the number as a text. Settings
// (config.*) have no constants, but a literal has any of the types.
type (
	// TextFact is the name of a fact for Fact, Get and Has.
	TextFact string
	// NumberFact is the name of a fact for Count.
	NumberFact string
	// YesNoFact is the name of a fact for Is and Not.
	YesNoFact string
	// ListFact is the name of a fact for List.
	ListFact string
)

// Get returns the named fact, or "" if it is absent. Absent means "not known" and must never add risk.
func (c *Check) Get(name TextFact) string {
	value, _ := c.Fact(name)
	return value
}

// Count returns the named fact as a number. known is false unless the fact is a number of at most nine digits.
func (c *Check) Count(name NumberFact) (n int, known bool) {
	digits := c.Get(TextFact(name))
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
func (c *Check) Is(name YesNoFact) bool { return c.Get(TextFact(name)) == "yes" }

// Not reports whether the named yes-or-no fact is known and no.
func (c *Check) Not(name YesNoFact) bool { return c.Get(TextFact(name)) == "no" }

// List returns an iterator over the entries of the named fact. An absent fact has none.
func (c *Check) List(name ListFact) func(yield func(string) bool) { // package iter would make each guest larger
	return func(yield func(string) bool) {
		list, begin := c.Get(TextFact(name)), 0
		for i := 0; i <= len(list); i++ {
			if i < len(list) && list[i] != ' ' {
				continue
			}
			if begin < i && !yield(list[begin:i]) {
				return
			}
			begin = i + 1
		}
	}
}

// Fail logs a reason for the layer's author and returns Failed. The host then decides the check without this layer.
func (c *Check) Fail(reason string) Outcome {
	c.Log(Error, reason)
	return Failed
}
