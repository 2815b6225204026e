// Command iban is the layer that judges an IBAN by its own arithmetic and form: accounts that no bank can have opened,
// and accounts that look made up.
package main

import "assay/sdk"

func init() { sdk.Register(Score) }

func main() {}
