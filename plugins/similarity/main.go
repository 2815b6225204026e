// Command similarity is the layer that scores names and mailboxes that nearly equal a reported one. The host finds the
// nearest reported name.
package main

import "assay/sdk"

func init() { sdk.Register(Score) }

func main() {}
