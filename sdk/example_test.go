//go:build !wasip1

package sdk_test

import (
	"fmt"
	"strings"

	"assay/sdk"
)

// A layer reads facts and returns signals. Its tests run it natively.
func Example() {
	layer := func(c *sdk.Check) sdk.Outcome {
		name, known := c.Fact("domain.name")
		if !known {
			return sdk.Abstained
		}
		if strings.Contains(name, "login") {
			c.Signal(30, "words:bait:login", "Contains the account-security bait word “login”")
			c.Threat(sdk.Phishing)
		}
		return sdk.Scored
	}

	answer := sdk.Run(layer, sdk.Facts{"domain.name": "bank-login"})
	fmt.Println(answer.Score, answer.Threat, answer.Signals[0].Text)
	fmt.Println(sdk.Run(layer, sdk.Facts{"entity.type": "phone"}).Outcome == sdk.Abstained)
	// Output:
	// 30 phishing Contains the account-security bait word “login”
	// true
}

func ExampleValidCode() {
	fmt.Println(sdk.ValidCode("domain:brand:lookalike"))
	fmt.Println(sdk.ValidCode("Lookalike"))
	// Output:
	// <nil>
	// signal code "Lookalike" is not of the form group:kind:detail in a-z, 0-9, _ and -
}
