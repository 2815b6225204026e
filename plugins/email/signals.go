// Code generated from manifest.json by assay plugin build. DO NOT EDIT.

package main

// The signals that the manifest declares.
const (
	signalDisposableService    = "email:disposable:service"     // The mail domain belongs to a disposable mail service, or is on two or more lists of disposable mail that are kept by hand
	signalDisposableName       = "email:disposable:name"        // The mail domain is named like a disposable mail service
	signalDisposableWording    = "email:disposable:wording"     // The name of the mail domain is the word temporarily
	signalProviderBorrowed     = "email:provider:borrowed"      // The mail domain borrows the name of a large mailbox provider without being it
	signalProviderTypo         = "email:provider:typo"          // The mail domain is one typing error away from a mailbox provider's
	signalImpersonationBrand   = "email:impersonation:brand"    // Poses as a desk of a brand at a mailbox provider open to anybody
	signalImpersonationPart    = "email:impersonation:part"     // Joins a brand, or a word that is also one, with service words at a mailbox provider open to anybody
	signalImpersonationSender  = "email:impersonation:sender"   // Poses as a desk of a brand at a domain without the brand's name
	signalImpersonationName    = "email:impersonation:name"     // The name of a brand at a mailbox provider open to anybody
	signalImpersonationDesk    = "email:impersonation:desk"     // Poses as an organisation's security or accounts desk at a mailbox provider open to anybody
	signalImpersonationNoReply = "email:impersonation:no_reply" // No-reply address at a mailbox provider where only people hold mailboxes
	signalRoleBrand            = "email:role:brand"             // Poses as a security or accounts desk at a domain that combines a brand with other words
	signalLocalWebAddress      = "email:local:web_address"      // The mailbox name is written like a web address
	signalLocalDomainName      = "email:local:domain_name"      // The mailbox name is written like a domain name, at a mailbox provider open to anybody
	signalLocalMixedScripts    = "email:local:mixed_scripts"    // The mailbox name mixes Latin letters with look-alike ones of another script
	signalLocalImpossible      = "email:local:impossible"       // The mailbox name has a character that no mailbox of Gmail has
	signalLocalKeyboard        = "email:local:keyboard"         // The mailbox name runs along the rows of a keyboard
	signalLocalRandom          = "email:local:random"           // The mailbox name is random letters, or random letters and a long number, at a mailbox provider open to anybody
	signalLocalMedicine        = "email:local:medicine"         // The mailbox name advertises a medicine that spam sells
)
