// Command oracle is a layer that reports everything it can see besides its facts: clocks, environment and randomness.
// It cannot try to open a file, because the host refuses modules that import the functions for that.
package main

import (
	"fmt"
	"syscall"
	"time"

	"assay/sdk"
)

func init() { sdk.Register(score) }

func main() {}

func score(c *sdk.Check) sdk.Outcome {
	// Go seeds the iteration order of maps from the random numbers of its host.
	var order []byte
	for key := range map[byte]bool{1: true, 2: true, 3: true, 4: true, 5: true, 6: true, 7: true} {
		order = append(order, key)
	}
	began := time.Now()
	for range 1000 {
		time.Now()
	}
	c.Signal(1, "test:world:seen", fmt.Sprintf("time %s, passed %s, environment %d, map order %x",
		began.UTC().Format(time.RFC3339Nano), time.Since(began), len(syscall.Environ()), order))
	return sdk.Scored
}
