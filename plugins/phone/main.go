// Command phone is the layer that finds phone numbers that nobody can hold, that cost the caller extra, or that a
// regulator reserves for films or telemarketing.
package main

import "assay/sdk"

func init() { sdk.Register(Score) }

func main() {}
