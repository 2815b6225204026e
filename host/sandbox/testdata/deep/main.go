// Command deep is a layer that recurses to the depth in domain.ascii.
package main

import (
	"strconv"

	"assay/sdk"
)

func init() { sdk.Register(score) }

func main() {}

// down has a frame of ordinary size: parameters, a call and two results.
func down(n int, more func(int) bool, tag string) (string, int) {
	if n == 0 || !more(n) {
		return tag, 0
	}
	tag, depth := down(n-1, more, tag)
	return tag, depth + 1
}

func score(c *sdk.Check) sdk.Outcome {
	n, _ := strconv.Atoi(c.Get("domain.ascii"))
	if _, depth := down(n, func(int) bool { return true }, "x"); depth == n {
		c.Signal(10, "deep:recursion:returned", "All calls have returned")
	}
	return sdk.Scored
}
