// Command front-door is a layer of Assay.
package main

import "layer/front-door/sdk"

func init() { sdk.Register(Score) }

func main() {}
