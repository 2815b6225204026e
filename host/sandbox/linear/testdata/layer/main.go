// Command layer is a guest that keeps the entities of earlier calls in a string, a map and a slice, and reports the
// last one in a signal.
package main

import (
	"os"

	"assay/sdk"
)

var (
	last    string
	seen    = map[string]int{}
	history []string
)

func init() { sdk.Register(remember) }

func remember(c *sdk.Check) sdk.Outcome {
	value := c.Get("entity.value")
	switch value {
	case "grow":
		history = append(history, string(make([]byte, 8<<20)))
	case "exit":
		os.Exit(3)
	}
	c.Signal(len(seen), "layer:memory:last", "Before: "+last)
	last = value
	seen[value]++
	history = append(history, value)
	return sdk.Scored
}

func main() {}
