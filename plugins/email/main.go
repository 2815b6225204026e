// Command email is the layer that scores an email address: disposable mail services, mistyped providers, the spelling
// of unknown mail domains, and local parts that pose as a brand or an office. The domain layer scores the domain name.
package main

import "assay/sdk"

func init() { sdk.Register(Score) }

func main() {}
