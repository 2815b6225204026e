// Code generated from manifest.json by assay plugin build. DO NOT EDIT.

package main

// The signals that the manifest declares.
const (
	signalDnsNoDomain        = "network:dns:no_domain"       // The registrable domain does not exist
	signalDnsNoHost          = "network:dns:no_host"         // The domain exists, the name under it does not
	signalDnsDangling        = "network:dns:dangling"        // The name is an alias of a name that does not exist and that somebody else could take over
	signalMailNoDomain       = "network:mail:no_domain"      // The mail domain does not exist, so nobody can have the address
	signalMailRefused        = "network:mail:refused"        // The mail domain declares that it accepts no mail (null MX, RFC 7505), so nobody can have the address
	signalMailNoServer       = "network:mail:no_server"      // The mail domain has neither a mail server nor an address, so nobody can have the address
	signalMailSendsNone      = "network:mail:sends_none"     // The mail domain declares that nobody sends mail in its name (SPF -all and nothing else)
	signalMailImplicit       = "network:mail:implicit"       // The mail domain names no mail server but has an address
	signalMailOpen           = "network:mail:open"           // Anybody may send mail in the domain's name (SPF +all)
	signalMailForgeable      = "network:mail:forgeable"      // The mail domain has neither SPF nor DMARC
	signalRegistrationYoung  = "network:registration:young"  // The domain was registered less than a year ago
	signalRegistrationHeld   = "network:registration:held"   // The registrar or registry took the domain offline
	signalRegistrationEnding = "network:registration:ending" // The registration has expired
	signalAddressSpecial     = "network:address:special"     // The name has no public address but a private, loopback or unspecified one
	signalAddressFlux        = "network:address:flux"        // The name has addresses in many networks
	signalServiceParked      = "network:service:parked"      // The domain is parked or for sale
	signalServiceCompany     = "network:service:company"     // Registrar, name servers or network are those of many reported domains; most of their customers are honest
	signalBlocklistDomain    = "network:blocklist:domain"    // A DNS blocklist names the domain
	signalBlocklistSeveral   = "network:blocklist:several"   // Several DNS blocklists name the domain
	signalBlocklistAddress   = "network:blocklist:address"   // DNS blocklists name an address of the host, which other sites may share
)
