// Command graph is the layer that scores an entity by the checks of all customers: how often it and entities connected
// to it were blocked. The host computes the counts.
package main

import "assay/sdk"

func init() { sdk.Register(Score) }

func main() {}
