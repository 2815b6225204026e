// The lexical layer: a learned model of how names of reported and of honest sites are written.
package main

import "assay/sdk"

func init() { sdk.Register(Score) }

func main() {}
