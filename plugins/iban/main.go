// Command iban is the layer that scores an IBAN by its check digits, its structure and its bank code: accounts that no
// bank can have opened, and accounts that look made up.
package main

import "assay/sdk"

func init() { sdk.Register(Score) }

func main() {}
