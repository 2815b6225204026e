// Command domain is the layer that scores the name of a domain: slips, disguises and borrowed names of brands. The
// lexical layer scores everything else about the wording of a name.
package main

import "assay/sdk"

func init() { sdk.Register(Score) }

func main() {}
