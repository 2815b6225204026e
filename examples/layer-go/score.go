package main

import (
	"strconv"
	"strings"

	"layer/borrowed-address/sdk"
)

// The points of each signal, and the age below which a registration is new.
const (
	addressPoints = 45
	newPoints     = 30
	newDays       = 90
)

// Score scores a domain by the labels left of its registrable domain, which its owner writes freely.
func Score(c *sdk.Check) sdk.Outcome {
	if !c.Has(sdk.DomainRegistrable) {
		return sdk.Abstained // a public suffix
	}
	address := addressIn(strings.Split(c.Get(sdk.DomainSubdomain), "."))
	if address == "" || c.Get(sdk.DomainSuffixKind) == "private" { // a customer's name at a hosting company
		return sdk.Scored
	}
	c.Signal(addressPoints, signalAddressInside, sdk.Join("Begins like the address ", sdk.Quote(address)))
	c.Threat(sdk.Phishing)
	if days, known := c.Count(sdk.RDAPAgeDays); known && days < newDays {
		ago := " days ago"
		if days == 1 {
			ago = " day ago"
		}
		c.Signal(newPoints, signalAddressNew, sdk.Join("Registered ", strconv.Itoa(days), ago))
	}
	return sdk.Scored
}

// addressIn returns the first labels that read as the address of another site, such as smbc.co.jp, or "".
func addressIn(labels []string) string {
	for i := 1; i < len(labels); i++ {
		country := i+1 < len(labels) && len(labels[i+1]) == 2
		switch labels[i] {
		case "com", "net", "org", "gov":
		case "ac", "co", "go", "gob", "gouv", "ne", "or":
			if !country {
				continue
			}
		default:
			continue
		}
		end := i + 1
		if country {
			end++ // com.br, co.jp
		}
		return strings.Join(labels[:end], ".")
	}
	return ""
}
