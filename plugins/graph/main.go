// The graph layer: what other customers met, and what became of it.
package main

import "assay/sdk"

func init() { sdk.Register(Score) }

func main() {}
