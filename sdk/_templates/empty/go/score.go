package main

import "layer/my-layer/sdk"

// Score scores a domain, or the domain of an email address.
func Score(c *sdk.Check) sdk.Outcome {
	if !c.Has(sdk.DomainRegistrable) {
		return sdk.Abstained // absent means "not known", and must never add risk
	}
	return sdk.Scored
}
