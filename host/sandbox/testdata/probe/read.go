package main

import (
	"strconv"
	"strings"

	"assay/sdk"
)

var names = [...]string{"config.a", "config.b", "config.c", "config.d", "config.e", "config.f", "config.g"}

// read reads facts of many lengths, keeps all of them, and emits what it read.
func read(c *sdk.Check) sdk.Outcome {
	var all, joined [20][len(names)]string
	for round := range all {
		for i, name := range names {
			fact := sdk.TextFact(name)
			value, known := c.Fact(fact)
			if known != c.Has(fact) {
				return c.Fail(name + ": Has and Fact differ")
			}
			all[round][i] = value
			joined[round][i] = sdk.Join(name, "=", value[:min(len(value), 100)])
		}
	}
	lengths := ""
	for round := range all {
		for i, name := range names {
			value := all[round][i]
			if want := strings.Repeat(name[len(name)-1:], len(value)); value != want {
				return c.Fail(name + " was overwritten")
			}
			if joined[round][i] != name+"="+value[:min(len(value), 100)] {
				return c.Fail("what was joined of " + name + " was overwritten")
			}
			if round == 0 {
				lengths += " " + strconv.Itoa(len(value))
			}
		}
	}
	n, known := c.Count("config.count")
	c.Signal(n, code, sdk.Join("Lengths:", lengths, ", count: ", strconv.FormatBool(known)))
	return sdk.Scored
}
