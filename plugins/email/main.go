// Command email is the layer that judges an email address apart from its domain's own look: throw-away services,
// mistyped providers, and what the local part pretends to be.
package main

import "assay/sdk"

func init() { sdk.Register(Score) }

func main() {}
