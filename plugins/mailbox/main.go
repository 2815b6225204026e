// Command mailbox is the layer that weighs how an email address is written: the kind of its provider, the spelling of
// its mail domain and the shape of its local part. None of this decides; the email layer has the findings.
package main

import "assay/sdk"

func init() { sdk.Register(Score) }

func main() {}
