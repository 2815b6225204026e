package check_test

import (
	"fmt"

	"assay/host/check"
)

func ExampleFuse() {
	outcomes := []check.Outcome{
		{Layer: "domain", Weight: 7, Score: 90, Contribution: 6.3, Threat: "phishing",
			Signals: []check.Signal{{Points: 90, Code: "domain:brand:paypal", Text: "Imitates PayPal"}}},
		{Layer: "network", Weight: 2, Range: check.Range{-100, 100}, Failure: check.Trap},
	}
	f := check.Fuse(-6, check.Bands{Review: 40, Block: 70}, outcomes)
	fmt.Println(f.Score, f.Verdict, f.Threat)
	fmt.Println("if the failed layer had answered:", f.Lowest, "to", f.Highest)
	for _, s := range f.Signals {
		fmt.Println(s.Code)
	}
	// Output:
	// 57 review phishing
	// if the failed layer had answered: 15 to 91
	// domain:brand:paypal
	// host:degraded:network
}
