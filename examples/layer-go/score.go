package main

import (
	"strings"

	"layer/front-door/sdk"
)

// The points of each signal, and the age below which a registration doubles those of a word.
const (
	wordPoints    = 15
	addressPoints = 45
	newDays       = 90
)

// doors are first labels that promise a place to sign in, to pay or to buy.
var doors = map[string]bool{
	"account": true, "accounts": true, "auth": true, "client": true, "confirm": true, "login": true, "official": true,
	"online": true, "payment": true, "payments": true, "portal": true, "secure": true, "security": true,
	"service": true, "services": true, "shop": true, "signin": true, "sso": true, "store": true, "support": true,
	"verification": true, "verify": true, "wallet": true, "webmail": true,
}

// Score scores a domain by the labels left of its registrable domain, which its owner writes freely.
func Score(c *sdk.Check) sdk.Outcome {
	if !c.Has(sdk.DomainRegistrable) {
		return sdk.Abstained // a public suffix
	}
	labels := strings.Split(c.Get(sdk.DomainSubdomain), ".")
	if c.Get(sdk.DomainSuffixKind) == "private" {
		return sdk.Scored // a customer's name at a hosting company
	}
	if address := addressIn(labels); address != "" {
		c.Signal(addressPoints, signalLabelAddress, sdk.Join("Begins like the address “", address, "”"))
		c.Threat(sdk.Phishing)
	}
	if !doors[labels[0]] {
		return sdk.Scored
	}
	points := wordPoints
	if days, known := c.Count(sdk.RDAPAgeDays); known && days < newDays {
		points *= 2
	}
	c.Signal(points, signalLabelDoor, sdk.Join("Begins with the word “", labels[0], "”"))
	return sdk.Scored
}

// addressIn returns the first labels that read as the address of another site, such as smbc.co.jp, or "".
func addressIn(labels []string) string {
	for i := 1; i < len(labels); i++ {
		end := i
		switch labels[i] {
		case "com", "net", "org", "gov":
		case "ac", "co", "go", "gob", "gouv", "ne", "or":
			if end++; end == len(labels) || len(labels[end]) != 2 {
				continue
			}
		default:
			continue
		}
		if end+1 < len(labels) && labels[i] == "com" && len(labels[end+1]) == 2 {
			end++ // com.br
		}
		return strings.Join(labels[:end+1], ".")
	}
	return ""
}
