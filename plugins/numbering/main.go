// Command numbering is the layer that weighs what a phone number's range says by itself: its type, the blocks that
// people reported, and its country. None of it decides; the phone layer has the findings.
package main

import "assay/sdk"

func init() { sdk.Register(Score) }

func main() {}
