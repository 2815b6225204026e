// Command probe is a layer that does what its mode says, for tests of what Go layers see and may do.
package main

import (
	"fmt"
	"strconv"
	"syscall"
	"time"

	"assay/sdk"
)

const code = "test:signal:one"

func init() { sdk.Register(score) }

func main() {}

func score(c *sdk.Check) sdk.Outcome {
	switch c.Get("config.mode") {
	case "look":
		c.Signal(1, code, surroundings())
	case "recurse":
		n, _ := strconv.Atoi(c.Get("config.depth"))
		if _, depth := down(n, func(int) bool { return true }, "x"); depth == n {
			c.Signal(10, code, "All calls have returned")
		}
	case "read":
		return read(c)
	case "refused":
		c.Signal(7, code, "One")
		c.Signal(7, "a:b:c", "Not declared")
	case "crash":
		panic("on purpose")
	case "long":
		c.Log(sdk.Info, c.Get("config.text"))
		c.Log(sdk.Info, "another")
	default:
		c.Has("config.absent")
		c.Has("config.absent")
		c.Has("config.undeclared")
		c.Log(sdk.Debug, "fine")
		c.Log(sdk.Warn, "less\nfine")
		c.Signal(7, code, "One")
	}
	return sdk.Scored
}

// surroundings reports what a layer can see besides its facts: clocks, environment and randomness. It cannot try to
// open a file, because the host refuses modules that import the functions for that.
func surroundings() string {
	// Go seeds the iteration order of maps from the random numbers of its host.
	var order []byte
	for key := range map[byte]bool{1: true, 2: true, 3: true, 4: true, 5: true, 6: true, 7: true} {
		order = append(order, key)
	}
	began := time.Now()
	for range 1000 {
		time.Now()
	}
	return fmt.Sprintf("time %s, passed %s, environment %d, map order %x", began.UTC().Format(time.RFC3339Nano),
		time.Since(began), len(syscall.Environ()), order)
}

// down has a frame of ordinary size: parameters, a call and two results.
func down(n int, more func(int) bool, tag string) (string, int) {
	if n == 0 || !more(n) {
		return tag, 0
	}
	tag, depth := down(n-1, more, tag)
	return tag, depth + 1
}
