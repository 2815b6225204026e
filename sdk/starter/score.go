package starter

import (
	"strconv"

	"assay/sdk"
)

// The points of each signal, and the limits from which they apply.
const (
	minDigits    = 4 // in a row
	digitsPoints = 20
	newDays      = 30
	newPoints    = 30
)

// Score scores a domain by the longest number in its name and by its age.
func Score(c *sdk.Check) sdk.Outcome {
	name, known := c.Fact(sdk.DomainRegistrable)
	if !known {
		return sdk.Abstained // absent means "not known", and must never add risk
	}
	digits := longestNumber(name)
	c.Log(sdk.Debug, sdk.Join("longest number: ", strconv.Itoa(len(digits)), " digits"))
	if len(digits) >= minDigits {
		c.Signal(digitsPoints, signalNameDigits, sdk.Join("Contains the number ", sdk.Quote(digits)))
	}
	age, known := c.Count(sdk.RDAPAgeDays)
	if !known || age >= newDays {
		return sdk.Scored
	}
	switch age {
	case 0:
		c.Signal(newPoints, signalAgeNew, "Registered today")
	case 1:
		c.Signal(newPoints, signalAgeNew, "Registered 1 day ago")
	default:
		c.Signal(newPoints, signalAgeNew, sdk.Join("Registered ", strconv.Itoa(age), " days ago"))
	}
	if len(digits) >= minDigits {
		c.Threat(sdk.Scam)
	}
	return sdk.Scored
}

// longestNumber returns the longest run of digits in name, the first one if several are equally long.
func longestNumber(name string) string {
	longest, begin := "", 0
	for i := range len(name) {
		if name[i] < '0' || name[i] > '9' {
			begin = i + 1
		} else if i+1-begin > len(longest) {
			longest = name[begin : i+1]
		}
	}
	return longest
}
