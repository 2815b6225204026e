// Command deep is a layer that calls itself as often as it is asked to.
package main

import (
	"strconv"

	"assay/sdk"
)

func init() { sdk.Register(score) }

func main() {}

// down takes a frame of an ordinary size: what it is given, what it calls, what it returns.
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
		c.Signal(10, "deep:back:again", "All calls have returned")
	}
	return sdk.Scored
}
