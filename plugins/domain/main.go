// The domain layer scores the name of a domain: imitated brands, homographs and risky suffixes. How a name is worded
// otherwise is scored by the layers lexical and patterns.
package main

import "assay/sdk"

func init() { sdk.Register(Score) }

func main() {}
