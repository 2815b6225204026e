// Command traced is a layer that does what its mode says.
package main

import "assay/sdk"

func init() { sdk.Register(score) }

func main() {}

func score(c *sdk.Check) sdk.Outcome {
	switch c.Get("config.mode") {
	case "refused":
		c.Signal(7, "test:signal:one", "One")
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
		c.Signal(7, "test:signal:one", "One")
	}
	return sdk.Scored
}
