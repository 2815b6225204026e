// Code generated from manifest.json by assay plugin build. DO NOT EDIT.

package main

// The signals that the manifest declares.
const (
	signalRegistrationOld       = "standing:registration:old"       // The domain has been registered for a year or more; counts half if the registration changed within 60 days
	signalRegistrationUnchanged = "standing:registration:unchanged" // The registry has recorded no change of name servers, registrar or holder for 90 days or more
	signalRankPopular           = "standing:rank:popular"           // The domain is on a list of popular sites; counts half for names below it and mailboxes
	signalListGood              = "standing:list:good"              // The entity, its mail domain or a domain above it is on a list of good entities
	signalCustomersKnown        = "standing:customers:known"        // Five or more customers have known the entity for at least 30 days and hardly ever blocked it
	signalBankKnown             = "standing:bank:known"             // The bank code of an IBAN that can exist belongs to a bank of the country
	signalMailProtected         = "standing:mail:protected"         // The domain accepts mail, and asks receivers to reject mail forged in its name
)
