// Command oracle is a layer that tells all that it could see of the world: clocks, environment, randomness. Were it to
// open a file it would not even be loaded: the functions for that are not offered.
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
	// The order of a map's keys is random: Go seeds it from the randomness that it is given.
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
