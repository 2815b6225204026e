// Command phone is the layer that judges a phone number by its numbering plan: numbers that cannot ring, numbers that
// earn by being called, ranges kept for films and for telemarketing.
package main

import "assay/sdk"

func init() { sdk.Register(Score) }

func main() {}
