// Command borrowed-address is a layer of Assay.
package main

import "layer/borrowed-address/sdk"

func init() { sdk.Register(Score) }

func main() {}
