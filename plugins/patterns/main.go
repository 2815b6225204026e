// Command patterns is the layer that scores the wording and the structure of a domain name with learned odds.
package main

import "assay/sdk"

func init() { sdk.Register(Score) }

func main() {}
