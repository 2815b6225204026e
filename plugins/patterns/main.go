// The patterns layer: how scams word and build the names of their domains.
package main

import "assay/sdk"

func init() { sdk.Register(Score) }

func main() {}
