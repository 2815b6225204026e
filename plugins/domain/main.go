// The domain layer: borrowed brand names, look-alike letters and risky suffixes.
package main

import "assay/sdk"

func init() { sdk.Register(Score) }

func main() {}
