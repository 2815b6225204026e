// Command standing is the layer that clears: it speaks for an entity that has been registered, known or popular for a
// long time, by evidence that is slow or costly to fake. The host looks everything up.
package main

import "assay/sdk"

func init() { sdk.Register(Score) }

func main() {}
