// Command phone is the layer that scores a phone number by its numbering plan: numbers that cannot ring, numbers that
// cost the caller extra, ranges reserved for films or telemarketing, and blocks that people reported.
package main

import "assay/sdk"

func init() { sdk.Register(Score) }

func main() {}
