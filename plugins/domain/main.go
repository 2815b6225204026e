// The domain layer scores the name of a domain: slips, disguises and borrowed names of brands. How a name is worded
// otherwise is scored by the layers lexical and patterns.
package main

import "assay/sdk"

func init() { sdk.Register(Score) }

func main() {}
