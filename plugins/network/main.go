// Command network is the layer that scores a domain by its DNS records, its registration and its addresses: whether it
// exists and since when, who serves it, whether it accepts mail, and which blocklists name it. The host does the
// lookups.
package main

import "assay/sdk"

func init() { sdk.Register(Score) }

func main() {}
