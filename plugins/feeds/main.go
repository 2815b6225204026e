// The feeds layer: entities that are on imported lists of known bad ones.
package main

import "assay/sdk"

func init() { sdk.Register(Score) }

func main() {}
