// Code generated from manifest.json by assay plugin build. DO NOT EDIT.

package main

// The signals that the manifest declares.
const (
	signalHomographBrand        = "domain:homograph:brand"         // The name spells a brand with letters of other alphabets, or with marks, that look like its own
	signalBrandLookalike        = "domain:brand:lookalike"         // The name spells a brand with digits or letters that look alike, such as 1 for l or rn for m
	signalBrandMissingDot       = "domain:brand:missing_dot"       // The name is an address of a brand without its dots, such as wwwpaypal
	signalSiteMissingDot        = "domain:site:missing_dot"        // The name is an address of a well-known site without its dots
	signalBrandAddressInside    = "domain:brand:address_inside"    // A brand's own address is spelt inside the name of another domain
	signalBrandBaitWords        = "domain:brand:bait_words"        // The name consists of a brand and two or more bait words, such as login and verify
	signalBrandTypo             = "domain:brand:typo"              // The name is one letter away from a brand or a well-known site
	signalBrandTypos            = "domain:brand:typos"             // The name is two letters away from a brand with a long name
	signalBrandHyphen           = "domain:brand:hyphen"            // The name is a brand with a hyphen where its name has none
	signalBrandCombined         = "domain:brand:combined"          // The name consists of a brand and a bait word, such as login or refund
	signalBrandBait             = "domain:brand:bait"              // Bait words, such as login and verify, stand next to a misspelt brand
	signalBrandBeside           = "domain:brand:beside"            // The name joins a distinctive brand with other words, and is not known to be a domain of the brand
	signalBrandSubdomain        = "domain:brand:subdomain"         // A distinctive brand, or a brand with bait words, is left of a domain that is not the brand's
	signalBrandSuffixTypo       = "domain:brand:suffix_typo"       // The name is that of a brand or a well-known site under a misspelt com, net or org, such as cm
	signalBrandElsewhere        = "domain:brand:elsewhere"         // The name is exactly a distinctive brand's, under a suffix where the brand is not known to own it
	signalBrandSuffix           = "domain:brand:suffix"            // The name is a brand's under a suffix where the brand is not known to own it
	signalBrandInside           = "domain:brand:inside"            // The name contains a brand and other words, and is not known to be a domain of the brand
	signalBrandSimilar          = "domain:brand:similar"           // The name resembles a brand, but not as closely as a typing error would
	signalBrandOfficial         = "domain:brand:official"          // The domain is on the list of a brand's own domains
	signalHomographMixedScripts = "domain:homograph:mixed_scripts" // One label mixes alphabets that share letter shapes
	signalHomographRareLetter   = "domain:homograph:rare_letter"   // A label contains a letter that hardly any language uses and that looks like a Latin one
	signalHomographWholeScript  = "domain:homograph:whole_script"  // Every letter of a label in another alphabet looks like a Latin one, far from where that alphabet is used
	signalGovernmentSuffix      = "domain:government:suffix"       // The suffix of a government, such as gov.uk, is spelt with hyphens or stands left of another domain
	signalSuffixUnknown         = "domain:suffix:unknown"          // The suffix does not exist, so nobody can have registered the name
	signalSuffixRestricted      = "domain:suffix:restricted"       // The name resembles a brand, but ends in a suffix that only public bodies or schools are given
)
