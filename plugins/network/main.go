// Command network is the layer that judges what the DNS, the registry and the network say of a domain: whether it
// exists, since when, who serves it, whether it can take mail, and who lists it.
package main

import "assay/sdk"

func init() { sdk.Register(Score) }

func main() {}
