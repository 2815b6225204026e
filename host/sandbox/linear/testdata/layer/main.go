// Command layer is a guest that remembers, in every way that Go offers, what the call before it was about, and says so.
package main

import (
	"os"

	"assay/sdk"
)

var (
	last  string
	seen  = map[string]int{}
	trail []string
)

func init() { sdk.Register(remember) }

func remember(c *sdk.Check) sdk.Outcome {
	value := c.Get("entity.value")
	switch value {
	case "grow":
		trail = append(trail, string(make([]byte, 8<<20)))
	case "exit":
		os.Exit(3)
	}
	c.Signal(len(seen), "layer:memory:last", "Before: "+last)
	last = value
	seen[value]++
	trail = append(trail, value)
	return sdk.Scored
}

func main() {}
