// Command numbering is the layer that weighs the evidence of a phone number's range: its type, the blocks that people
// reported, and its country. None of this decides; the phone layer has the findings.
package main

import "assay/sdk"

func init() { sdk.Register(Score) }

func main() {}
