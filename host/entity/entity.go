// Package entity parses a domain, an email address, a phone number or an IBAN into a normalised value and the facts
// that follow from the text alone. It uses no network, clock or state; lookups live in package facts.
//
// Text that cannot be such an entity is an [*InvalidError], which clients see as a 400. Text that is well-formed but
// wrong (an IBAN with wrong check digits, a phone number outside its country's numbering plan) is an [Entity] whose
// facts describe the error, so that it can be scored.
package entity

import (
	"fmt"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Type is one of the four types of entity that can be checked (contract section 2.1).
type Type string

// The types, which have the names of the request fields.
const (
	Domain Type = "domain"
	Email  Type = "email"
	Phone  Type = "phone"
	IBAN   Type = "iban"
)

// Types returns the types in order of precedence: a request with several fields scores the first.
func Types() []Type { return []Type{Domain, Email, Phone, IBAN} }

// Facts holds the known facts about an entity, by the names of [FactTable]. A fact that is unknown or does not apply is
// absent, never empty.
type Facts map[string]string

func (f Facts) set(name, value string) {
	if value != "" {
		f[name] = value
	}
}

func (f Facts) setYes(name string, yes bool) {
	if yes {
		f[name] = "yes"
	} else {
		f[name] = "no"
	}
}

// Entity is a parsed entity.
type Entity struct {
	Type Type
	// Value is the normalised text. It identifies the entity in pseudonyms and in the reputation graph. It is UTF-8
	// without control characters, and Parse(Type, Value, country) returns it unchanged.
	Value string
	Facts Facts
}

// InvalidError is the reason why text is not a valid entity, worded for API clients.
type InvalidError struct {
	Field  string // the request field: a Type, "type" or "region.country"
	Reason string // a clause without a full stop; repeats at most maxEcho characters of the input, escaped
}

// Error returns "field: reason".
func (e *InvalidError) Error() string { return e.Field + ": " + e.Reason }

// refusal is the Reason of an InvalidError, before the field is known.
type refusal string

func (r refusal) Error() string { return string(r) }

func refuse(format string, args ...any) error { return refusal(fmt.Sprintf(format, args...)) }

// maxRawBytes limits the work of all later steps. The longest valid entity is an email address of 254 bytes.
const maxRawBytes = 1024

// maxEcho is the maximum number of input characters that an error repeats, so that errors cannot carry payloads.
const maxEcho = 32

// Auto is the type of a value whose type Parse guesses.
const Auto Type = "auto"

// Parse normalises raw as an entity of type t and derives its facts. country is the request's region (see [Country]),
// in whose numbering plan a national phone number is read. Every error is an [*InvalidError].
func Parse(t Type, raw, country string) (Entity, error) {
	region, err := Country(country)
	if err != nil {
		return Entity{}, err
	}
	if t == Auto {
		t = Guess(raw)
	}
	var read func(text, region string, facts Facts) (string, error)
	switch t {
	case Domain:
		read = readDomain
	case Email:
		read = readEmail
	case Phone:
		read = readPhone
	case IBAN:
		read = readIBAN
	default:
		return Entity{}, &InvalidError{Field: "type", Reason: "must be one of domain, email, phone or iban"}
	}
	facts := make(Facts, mostFacts)
	facts["entity.type"], facts["entity.country"] = string(t), region
	text, err := clean(t, raw)
	if err == nil {
		facts["entity.value"], err = read(text, region, facts)
	}
	if err != nil {
		return Entity{}, &InvalidError{Field: string(t), Reason: err.Error()}
	}
	return Entity{Type: t, Value: facts["entity.value"], Facts: facts}, nil
}

// mostFacts is the maximum number of facts that most entities have.
const mostFacts = 14

// clean trims ASCII white space and refuses characters that no entity can contain. Its result is short, valid UTF-8.
func clean(t Type, raw string) (string, error) {
	if len(raw) > maxRawBytes {
		return "", refuse("is longer than %d bytes", maxRawBytes)
	}
	text := strings.Trim(raw, " \t\n\v\f\r")
	if text == "" {
		return "", refuse("is empty")
	}
	if !utf8.ValidString(text) {
		return "", refuse("is not valid UTF-8")
	}
	for _, r := range text {
		switch {
		case r == '\t' && (t == IBAN || t == Phone): // a separator in pasted tables
		case unicode.IsControl(r), r == '\u2028', r == '\u2029':
			return "", refuse("contains the control character U+%04X", r)
		case r == unicode.ReplacementChar: // decoders insert it for invalid UTF-8
			return "", refuse("contains U+FFFD, the replacement for invalid text")
		case isBidiControl(r) && t != Phone: // address books wrap phone numbers in them
			return "", refuse("contains the text direction control U+%04X, which can disguise the text", r)
		}
	}
	return text, nil
}

// isBidiControl reports whether r has Unicode's Bidi_Control property, so that it can reorder displayed text.
func isBidiControl(r rune) bool { return unicode.Is(unicode.Bidi_Control, r) }

// excerpt quotes a part of the input for an error, truncated to maxEcho characters and escaped for logs.
func excerpt(s string) string {
	var b strings.Builder
	n := 0
	for _, r := range s {
		piece := strconv.QuoteRuneToGraphic(r)
		piece = piece[1 : len(piece)-1]
		if n += utf8.RuneCountInString(piece); n > maxEcho {
			b.WriteString("…")
			break
		}
		b.WriteString(piece)
	}
	return "'" + b.String() + "'"
}

// Guess returns the most likely type of a value entered on the command line. The value may still be invalid.
func Guess(raw string) Type {
	text := strings.TrimSpace(raw)
	if len(text) > maxRawBytes {
		return Domain
	}
	if strings.Contains(text, "@") && !strings.Contains(text, "://") {
		return Email
	}
	if code, err := ibanCode(text); err == nil && ibanShaped(code) {
		return IBAN
	}
	number := cutExtension(text)
	letters := strings.IndexFunc(number, unicode.IsLetter) >= 0
	if strings.HasPrefix(text, "+") || !letters && strings.IndexFunc(number, unicode.IsDigit) >= 0 {
		return Phone
	}
	return Domain
}

// Parent is a node of the reputation graph that many entities share, such as a bank or a mail domain.
type Parent struct{ Kind, Value string }

// rangeDigits is the number of leading digits of an E.164 number that identify the block it was assigned from: country,
// area or operator, and block.
const rangeDigits = 7

// Parents returns the parents of e that its facts determine, widest last. Their types are "maildomain" (the mail domain
// of an email address), "registrable" (the registrable domain of a domain or email address), "range" (the first 7
// digits of a phone number) and "bank" (the country and bank of an IBAN).
func (e Entity) Parents() []Parent {
	var parents []Parent
	add := func(kind, value string) {
		if value != "" && value != e.Value {
			parents = append(parents, Parent{kind, value})
		}
	}
	switch e.Type {
	case Domain:
		add("registrable", e.Facts["domain.registrable"])
	case Email:
		add("maildomain", e.Facts["email.domain"])
		add("registrable", e.Facts["domain.registrable"])
	case Phone:
		if digits := strings.TrimPrefix(e.Facts["phone.e164"], "+"); len(digits) >= rangeDigits {
			add("range", digits[:rangeDigits])
		}
	case IBAN:
		if bank := e.Facts["iban.bank"]; bank != "" {
			add("bank", e.Facts["iban.country"]+bank)
		}
	}
	return parents
}
