// Command feeds is the layer that scores entities on imported lists of known bad entities. The host does the lookup.
package main

import "assay/sdk"

func init() { sdk.Register(Score) }

func main() {}
