// Code generated from manifest.json by assay plugin build. DO NOT EDIT.

package main

// The signals that the manifest declares.
const (
	signalProviderRelay   = "mailbox:provider:relay"   // Privacy relay that forwards to a real mailbox
	signalProviderKnown   = "mailbox:provider:known"   // Well-known or long-standing mailbox provider
	signalDomainResembles = "mailbox:domain:resembles" // The mail domain is spelt like disposable ones
	signalDomainOrdinary  = "mailbox:domain:ordinary"  // The mail domain is spelt like those of ordinary sites
	signalDomainHost      = "mailbox:domain:host"      // The mail domain is a host below a registered domain
	signalRoleShared      = "mailbox:role:shared"      // Shared address of a role, a team or a mailing list
	signalLocalRandom     = "mailbox:local:random"     // The mailbox name reads as made by a machine
	signalLocalDigits     = "mailbox:local:digits"     // The mailbox name ends in a long number
)
