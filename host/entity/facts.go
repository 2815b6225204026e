package entity

import "slices"

// Fact describes a fact that layers can read by its name (sdk/ABI.md section 7).
type Fact struct {
	Name            string
	Kind            Kind
	Format, Example string
	Bytes           int // of the longest value
}

// Kind is how layers read a fact. In each SDK, an accessor of the fact returns this kind of value.
type Kind int

// The kinds of facts. The entries of a list are separated by spaces.
const (
	Text Kind = iota
	YesNo
	Number
	List
)

// String returns the kind's name in sdk/ABI.md.
func (k Kind) String() string { return [...]string{"text", "yes/no", "number", "list"}[k] }

// TextFact describes a text of at most the given number of bytes.
func TextFact(name string, bytes int, example, format string) Fact {
	return Fact{name, Text, format, example, bytes}
}

// YesNoFact describes a fact that is yes or no.
func YesNoFact(name, example, format string) Fact { return Fact{name, YesNo, format, example, 3} }

// NumberFact describes a whole number of at most nine digits.
func NumberFact(name, example, format string) Fact { return Fact{name, Number, format, example, 9} }

// ListFact describes a list of at most the given number of bytes.
func ListFact(name string, bytes int, example, format string) Fact {
	return Fact{name, List, format, example, bytes}
}

// FactTable returns the facts that this package produces, in the order of ABI.md.
func FactTable() []Fact { return slices.Clone(factTable) }

var factTable = []Fact{
	{"entity.type", Text, "domain, email, phone or iban", "email", 6},
	{"entity.value", Text, "the normalised value, the identity of the entity", "jane@gmail.com", 254},
	{"entity.country", Text, "the request's region: ISO 3166-1 alpha-2, or EU", "DE", 2},
	{"domain.ascii", Text, "A-labels, lower case, no trailing dot (email: the mail domain)", "xn--pypal-4ve.com", 253},
	{"domain.unicode", Text, "domain.ascii in U-labels", "pаypal.com", 1012},
	{"domain.registrable", Text, "public suffix or shared host plus one label, A-labels; absent for a public suffix",
		"example.co.uk", 253},
	{"domain.suffix", Text, "the public suffix, or the shared host that gives out the name, A-labels", "co.uk", 253},
	{"domain.suffix_kind", Text, "icann, private (shared hosting and the like) or unlisted", "private", 8},
	{"domain.tld", Text, "the last label, A-label", "uk", 63},
	{"domain.name", Text, "the label left of the suffix, U-label; absent if the name is itself a public suffix",
		"example", 252},
	{"domain.subdomain", Text, "the labels left of the registrable domain, U-labels; absent if there are none",
		"login.secure", 1012},
	{"domain.scripts", Text, "per label of domain.unicode, left to right, joined by \".\"; the label's Unicode " +
		"scripts (Common and Inherited left out) sorted and joined by \"+\"; \"Common\" if none is left",
		"Cyrillic+Latin.Latin", 4096},
	{"email.address", Text, "local part as written, \"@\", mail domain in A-labels",
		"Jane.Doe+shop@googlemail.com", 318},
	{"email.local", Text, "the local part as written, including quotes", "Jane.Doe+shop", 64},
	{"email.user", Text, "the mailbox: lower case, tag removed, dots removed if the provider ignores them",
		"janedoe", 64},
	{"email.tag", Text, "the tag that was removed; absent if there is none", "shop", 64},
	{"email.domain", Text, "the mail domain after provider aliases (googlemail.com -> gmail.com), A-labels",
		"gmail.com", 253},
	{"email.provider", Text, "a large mailbox provider's name: google, microsoft, yahoo, apple, proton, fastmail, " +
		"gmx, webde, mailru, yandex, zoho, tutanota, aol, qq, naver, orange_fr, ... ; absent if there is none",
		"google", 32},
	{"phone.e164", Text, "E.164 with \"+\"; absent if the number cannot be read as one", "+33612345678", 16},
	{"phone.country", Text, "ISO 3166-1 alpha-2, or 001 for non-geographic codes; absent if unknown", "FR", 3},
	{"phone.calling_code", Text, "digits", "33", 3},
	{"phone.national", Text, "the national significant number, digits", "612345678", 15},
	{"phone.type", Text, "mobile, fixed_line, fixed_line_or_mobile, premium_rate, toll_free, shared_cost, voip, " +
		"personal, pager, uan, voicemail, unknown", "mobile", 20},
	{"phone.valid", YesNo, "yes or no: matches a range of its country's numbering plan", "yes", 3},
	{"phone.possible", Text, "possible, too_short, too_long, local_only or invalid_length", "possible", 14},
	{"phone.assumed", YesNo, "yes if the country was guessed (national format, region EU); else no", "no", 3},
	{"phone.otherwise_ordinary", YesNo, "yes if the country was guessed and another plan, which fits the writing " +
		"as well, has the number as a mobile or fixed line, while the guessed one has a special number; else no; " +
		"absent without phone.e164", "no", 3},
	{"iban.country", Text, "the first two letters", "DE", 2},
	{"iban.listed", YesNo, "yes if the ISO 13616 registry lists the country, or the country issues IBANs " +
		"without being in it", "yes", 3},
	{"iban.structure", Text, "ok, length or format, against the registry; absent if not listed", "ok", 6},
	{"iban.check", Text, "ok or wrong: ISO 7064 mod 97-10", "ok", 5},
	{"iban.check_digits", Text, "the two digits as written", "89", 2},
	{"iban.bban", Text, "the part after the check digits", "370400440532013000", 30},
	{"iban.bank", Text, "the bank identifier by the registry's positions; absent if not listed or structure is not " +
		"ok", "37040044", 30},
	{"iban.branch", Text, "the branch identifier by the registry's positions; absent if the country has none",
		"005", 30},
	{"iban.account", Text, "the part after bank and branch", "0532013000", 30},
	{"iban.sepa", YesNo, "yes if the country takes part in SEPA; absent if not listed", "yes", 3},
	{"iban.national", Text, "ok or wrong: the country's own check digits inside the BBAN; absent unless the host " +
		"knows the country's algorithm", "ok", 5},
}
