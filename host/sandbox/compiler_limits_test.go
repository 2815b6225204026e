//go:build linux && !race

package sandbox

import (
	"context"
	"testing"
	"time"

	"assay/registry/expect"
)

// The race detector takes terabytes into use, and other systems have no limits.

// A compiler that misbehaves fails alone.
func TestCompilerIsLimited(t *testing.T) {
	t.Parallel()
	type testCase struct {
		change func(*compiler)
		want   string
	}
	expect.EachNamed(t, map[string]testCase{
		"spin":         {func(c *compiler) { c.limits.CPUSeconds = 1 }, "more than 1 s of processor time"},
		"allocate":     {func(c *compiler) { c.limits.Memory = 256 << 20 }, "more than 256 MiB of memory"},
		"sleep":        {func(c *compiler) { c.timeout = 50 * time.Millisecond }, context.DeadlineExceeded.Error()},
		"panic":        {nil, "a bug in the engine"},
		"babble":       {nil, "reading the compiler's report"},
		"another code": {nil, errCodeChanged.Error()},
	}, func(t *testing.T, name string, test testCase) {
		box := compilingWith(t, name, Config{})
		if test.change != nil {
			test.change(box.compiler)
		}
		expect.ErrorText(t, "opening", openError(t, box, sevenPoints(t)), test.want)
	})
}
