// Command small is a layer of a few lines for the benchmarks: it looks for five words and gives a signal for each that
// it finds. small.c beside its folder does the same.
package main

import (
	"strings"

	"assay/sdk"
)

func init() { sdk.Register(score) }

func main() {}

var words = [...]struct{ word, code, text string }{
	{"login", "bench:word:login", "The name holds the word login"},
	{"secure", "bench:word:secure", "The name holds the word secure"},
	{"verify", "bench:word:verify", "The name holds the word verify"},
	{"account", "bench:word:account", "The name holds the word account"},
	{"paypal", "bench:word:paypal", "The name holds the word paypal"},
}

func score(c *sdk.Check) sdk.Outcome {
	name := c.Get("domain.ascii")
	for i := range words {
		if w := &words[i]; strings.Contains(name, w.word) {
			c.Signal(10, w.code, w.text)
		}
	}
	return sdk.Scored
}
