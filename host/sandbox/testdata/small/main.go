// Command small is a small layer for the benchmarks. It emits a signal for each of five words that the name contains.
// ../small.c is the same layer in C.
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
