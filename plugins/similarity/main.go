// The similarity layer: names that are nearly those of known scams.
package main

import "assay/sdk"

func init() { sdk.Register(Score) }

func main() {}
