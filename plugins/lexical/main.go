// Command lexical is the layer that scores how a domain name is written, with a model learned from reported and honest
// names. MODEL.md describes the model.
package main

import "assay/sdk"

func init() { sdk.Register(Score) }

func main() {}
