// Command my-layer is a layer of Assay.
package main

import "layer/my-layer/sdk"

func init() { sdk.Register(Score) }

func main() {}
