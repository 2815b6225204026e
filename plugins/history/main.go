// Command history is the layer that scores how often and how fast an entity is checked. The host does the counting.
package main

import "assay/sdk"

func init() { sdk.Register(Score) }

func main() {}
