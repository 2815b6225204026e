// Package entity turns what an API consumer sent (a domain, an email address, a phone number or an IBAN) into one
// normalised value and the facts that can be read from the text alone. It is pure: no network, no clock, no state.
//
// Two outcomes are kept apart. Text that cannot be such an entity at all is an [*InvalidError], a 400 to the consumer.
// Text that is well formed but wrong (an IBAN with a wrong check digit, a phone number outside its country's plan) is
// an [Entity] whose facts say what is wrong, so that it can be scored.
package entity

import (
	"fmt"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Type is one of the four kinds of entity that can be checked (spec section 2.1).
type Type string

// The types, named as the request fields are.
const (
	Domain Type = "domain"
	Email  Type = "email"
	Phone  Type = "phone"
	IBAN   Type = "iban"
)

// Types lists the types in the order in which a request with several fields is read: the first one present is scored.
func Types() []Type { return []Type{Domain, Email, Phone, IBAN} }

// Facts holds what is known of an entity, by the names of [FactTable]. A fact that is unknown or does not apply is
// absent; no fact is ever empty.
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

// Entity is one parsed subject of a check.
type Entity struct {
	Type Type
	// Value is the normalised text, the identity that pseudonyms and the reputation graph are made from. It is UTF-8
	// without control characters, and Parse(Type, Value, country) gives it back unchanged.
	Value string
	Facts Facts
}

// InvalidError says why text cannot be an entity, in words meant for an API consumer.
type InvalidError struct {
	Field  string // the request field: a Type, "type" or "region.country"
	Reason string // one clause without a full stop; echoes at most 32 characters of the input, escaped
}

// Error gives "field: reason".
func (e *InvalidError) Error() string { return e.Field + ": " + e.Reason }

// refusal is an InvalidError that does not know its field yet: an email's domain is refused as part of the email.
type refusal string

func (r refusal) Error() string { return string(r) }

func refuse(format string, args ...any) error { return refusal(fmt.Sprintf(format, args...)) }

// maxRawBytes bounds every later step's work; no valid entity comes near it (the longest is an email of 254 bytes).
const maxRawBytes = 1024

// maxEcho bounds how many characters of the input an error repeats, so that errors cannot carry payloads.
const maxEcho = 32

// Parse normalises raw as an entity of type t and reads its facts. country is the request's region (see [Country]); it
// decides how a phone number in national format is read. Every error is an [*InvalidError].
func Parse(t Type, raw, country string) (Entity, error) {
	region, err := Country(country)
	if err != nil {
		return Entity{}, err
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
	facts := Facts{"entity.type": string(t), "entity.country": region}
	text, err := clean(t, raw)
	if err == nil {
		facts["entity.value"], err = read(text, region, facts)
	}
	if err != nil {
		return Entity{}, &InvalidError{Field: string(t), Reason: err.Error()}
	}
	return Entity{Type: t, Value: facts["entity.value"], Facts: facts}, nil
}

// clean trims ASCII white space and refuses what no entity may hold. Everything after it works on short, valid UTF-8.
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
		case r == '\t' && (t == IBAN || t == Phone): // separates groups in pasted tables
		case unicode.IsControl(r), r == '\u2028', r == '\u2029':
			return "", refuse("contains the control character U+%04X", r)
		case r == unicode.ReplacementChar: // what decoders leave where text was not UTF-8
			return "", refuse("contains U+FFFD, which stands for invalid text")
		case isBidiControl(r) && t != Phone: // contact lists wrap numbers in them
			return "", refuse("contains the text direction control U+%04X, which can disguise the text", r)
		}
	}
	return text, nil
}

// isBidiControl knows the characters of Unicode's Bidi_Control property, which reorder how text is shown.
func isBidiControl(r rune) bool { return unicode.Is(unicode.Bidi_Control, r) }

// excerpt quotes a piece of the input for an error text: short, and escaped so that it is safe in any log.
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

// Guess says which type a value typed on the command line most likely has. It never fails; [Parse] decides.
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

// Parent is what an entity hangs on in the reputation graph: many entities share one.
type Parent struct{ Kind, Value string }

// rangeDigits is how much of an E.164 number names the block it was allotted from: country, area or operator, and
// block.
const rangeDigits = 7

// Parents lists what e hangs on, widest last: the registrable domain of a host name ("registrable"), the mail domain of
// an address ("maildomain"), the first 7 digits of a phone number ("range"), the bank of an IBAN with its country
// ("bank"). What the facts do not tell is left out.
func (e Entity) Parents() []Parent {
	var held []Parent
	add := func(kind, value string) {
		if value != "" && value != e.Value {
			held = append(held, Parent{kind, value})
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
	return held
}
