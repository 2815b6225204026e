package entity

import (
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/nyaruka/phonenumbers"
)

// Digits of a number that can be checked: ITU-T E.164 section 6.2.1 allows 15 with the country code. Below 6 there are
// only short codes, except in small plans, whose numbers are read where the request names the country.
const (
	minPhoneDigits = 6
	maxPhoneDigits = 15
)

// unionPlans are the member states of the EU, by population (Eurostat, 2024): a number in national format that fits
// several plans is read in the first, as the likeliest.
var unionPlans = strings.Fields("DE FR IT ES PL RO NL BE CZ PT SE GR HU AT BG DK FI SK IE HR LT SI LV EE CY LU MT")

// otherPlans are tried after the EU's: its large neighbours, then the largest plans elsewhere (United Nations, World
// Population Prospects 2024).
var otherPlans = strings.Fields("GB TR UA CH NO RS US IN BR MX RU IL AU JP ID PK NG BD PH EG VN IR TH ZA KR CO AR MA SA")

func readPhone(text, region string, facts Facts) (string, error) {
	d, err := readDial(text)
	if err != nil {
		return "", err
	}
	if n := len(d.digits); n > maxPhoneDigits {
		return "", refuse("has more than %d digits", maxPhoneDigits)
	} else if n < minPhoneDigits && (d.international || region == union) {
		return "", refuse("has fewer than %d digits", minPhoneDigits)
	}
	number, assumed, ordinary := d.number(region)
	if len(d.digits) < minPhoneDigits && (number == nil || !phonenumbers.IsValidNumber(number)) {
		return "", refuse("has fewer than %d digits", minPhoneDigits)
	}
	facts.setYes("phone.assumed", assumed)
	if number == nil {
		facts.set("phone.valid", "no")
		facts.set("phone.type", "unknown")
		return d.String(), nil
	}
	facts.setYes("phone.otherwise_ordinary", ordinary)
	e164 := phonenumbers.Format(number, phonenumbers.E164)
	country := phonenumbers.GetRegionCodeForNumber(number)
	if country == "" && !d.international && region != union && !assumed {
		country = region // shared calling codes: an invalid number has only the request's word for its country
	}
	facts.set("phone.e164", e164)
	facts.set("phone.country", country)
	national := phonenumbers.GetNationalSignificantNumber(number)
	facts.set("phone.calling_code", strings.TrimSuffix(e164[1:], national))
	facts.set("phone.national", national)
	facts.set("phone.type", phoneType(phonenumbers.GetNumberType(number)))
	facts.setYes("phone.valid", phonenumbers.IsValidNumber(number))
	facts.set("phone.possible", possible(phonenumbers.IsPossibleNumberWithReason(number)))
	return e164, nil
}

// dial is a number as it was written, without its formatting.
type dial struct {
	text          string // as written, without extension
	digits        string // ASCII; without the prefix 00
	international bool   // began with '+' or 00
	groups        []int  // how many digits stood together, in order
}

// String is the identity of a number that no plan explains.
func (d dial) String() string {
	if d.international {
		return "+" + d.digits
	}
	return d.digits
}

// readDial drops formatting, an extension and a "tel:" prefix (RFC 3966), and reads the digits of every script.
func readDial(text string) (dial, error) {
	number := cutExtension(text)
	if len(number) >= 4 && strings.EqualFold(number[:4], "tel:") {
		number, _, _ = strings.Cut(number[4:], ";")
	}
	d := dial{text: number}
	var digits []byte
	run := 0
	for _, r := range number {
		if v, ok := digitValue(r); ok {
			digits = append(digits, byte('0'+v))
			run++
			continue
		}
		if run > 0 {
			d.groups, run = append(d.groups, run), 0
		}
		switch {
		case (r == '+' || r == '\uff0b') && len(digits) == 0 && !d.international:
			d.international = true
		case isPhoneSeparator(r):
		case unicode.IsLetter(r):
			return dial{}, refuse("contains letters; send digits only")
		default:
			return dial{}, refuse("contains %s, which is not part of a phone number", excerpt(string(r)))
		}
	}
	if run > 0 {
		d.groups = append(d.groups, run)
	}
	d.digits = string(digits)
	if d.digits == "" {
		return dial{}, refuse("contains no digits")
	}
	if rest, found := strings.CutPrefix(d.digits, "00"); found && !d.international {
		d.digits, d.international = rest, true // ITU-T E.123: the common international prefix
	}
	return d, nil
}

// digitValue reads a decimal digit of any script. Unicode lays each script's ten digits out in order from a zero, and
// ranges of category Nd hold whole tens.
func digitValue(r rune) (int, bool) {
	if r < utf8.RuneSelf {
		return int(r - '0'), r >= '0' && r <= '9'
	}
	for _, span := range unicode.Nd.R16 {
		if lo := rune(span.Lo); r >= lo && r <= rune(span.Hi) {
			return int(r-lo) % 10, true
		}
	}
	for _, span := range unicode.Nd.R32 {
		if lo := rune(span.Lo); r >= lo && r <= rune(span.Hi) {
			return int(r-lo) % 10, true
		}
	}
	return 0, false
}

// isPhoneSeparator knows what people write between digits, and the invisible characters that come with pasted numbers.
func isPhoneSeparator(r rune) bool {
	return unicode.IsSpace(r) || unicode.Is(unicode.Pd, r) || isBidiControl(r) ||
		strings.ContainsRune("()[]./·•~−（）．／\u200b\u2060\ufeff\u00ad", r)
}

// cutExtension splits an extension off: "ext. 12", "x12", "#12", ";ext=12" at the end, of at most 7 digits. Address
// books write what is dialled after a pause as ",,12".
func cutExtension(text string) (number string) {
	head := strings.TrimRight(text, "0123456789")
	if digits := len(text) - len(head); digits == 0 || digits > 7 {
		return text
	}
	lower := strings.ToLower(strings.TrimRight(head, " .:="))
	for _, mark := range []string{"extension", "extn", "ext", "durchwahl", "poste", "anexo", "доб", "int", "x", "#",
		",,"} {
		if number, found := strings.CutSuffix(lower, mark); found && len(lower) <= len(text) {
			return strings.TrimRight(text[:len(number)], " ,;")
		}
	}
	return text
}

// number reads d, in the region's plan when d is in national format. nil means that no plan explains d. assumed tells
// that the country is a guess, ordinary that another guess would have been as good and makes an ordinary number of it.
func (d dial) number(region string) (number *phonenumbers.PhoneNumber, assumed, ordinary bool) {
	if d.international {
		return readE164("+" + d.digits), false, false
	}
	if phonenumbers.GetCountryCodeForRegion(region) != 0 {
		number := readPlan(d.digits, region)
		if number != nil && phonenumbers.IsValidNumber(number) {
			return number, false, false
		}
		if guess := d.withoutPlus(); guess != nil {
			return guess, true, false
		}
		return number, false, false
	}
	number, ordinary = d.guess()
	return number, true, ordinary
}

// guess finds the plan of a number in national format when nothing names its country. Many plans accept the same
// digits; how they were written tells those apart: "(800) 253-7078" is North American, "800 25 37 07" is not. Of plans
// that look equally likely the first wins, and the EU's come first. A special number, such as premium rate, is told
// from one that is a person's mobile or fixed line in another plan that looks as likely.
func (d dial) guess() (best *phonenumbers.PhoneNumber, ordinary bool) {
	if len(d.digits) > 10 { // longer than most national numbers
		if number := d.withoutPlus(); number != nil {
			return number, false
		}
	}
	likest := otherDigits
	for _, plans := range [][]string{unionPlans, otherPlans} {
		for _, region := range plans {
			number, err := phonenumbers.Parse(d.digits, region)
			if err != nil || !phonenumbers.IsValidNumber(number) {
				continue
			}
			l := d.likeness(phonenumbers.Format(number, phonenumbers.NATIONAL))
			switch {
			case l > likest:
				best, likest, ordinary = number, l, false
			case l == likest && best != nil && !ordinary:
				ordinary = personal(number) && !personal(best)
			}
			if likest == sameText && (ordinary || personal(best)) {
				return canonical(best), ordinary
			}
		}
	}
	if best == nil {
		return d.withoutPlus(), false
	}
	return canonical(best), ordinary
}

// personal tells whether number is of a kind that people have at home or carry.
func personal(number *phonenumbers.PhoneNumber) bool {
	switch phonenumbers.GetNumberType(number) {
	case phonenumbers.MOBILE, phonenumbers.FIXED_LINE, phonenumbers.FIXED_LINE_OR_MOBILE:
		return true
	}
	return false
}

// How much a number as written looks like a plan's own national format of it. Other digits mean that a trunk prefix was
// written where the plan has none, or the other way round. Bare digits can look like no more than the same digits.
const (
	otherDigits = iota
	sameDigits
	sameGroups
	sameText
)

func (d dial) likeness(formatted string) int {
	digits, groups := runs(formatted)
	switch {
	case digits != d.digits:
		return otherDigits
	case len(d.groups) < 2:
		return sameDigits
	case d.text == formatted:
		return sameText
	case slices.Equal(groups, d.groups):
		return sameGroups
	}
	return sameDigits
}

// runs gives the ASCII digits of s, and how many stand together each time.
func runs(s string) (digits string, groups []int) {
	for _, run := range strings.FieldsFunc(s, func(r rune) bool { return r < '0' || r > '9' }) {
		digits += run
		groups = append(groups, len(run))
	}
	return digits, groups
}

// withoutPlus reads d as an international number whose '+' was lost, if that makes a valid one.
func (d dial) withoutPlus() *phonenumbers.PhoneNumber {
	number := readE164("+" + d.digits)
	if number == nil || !phonenumbers.IsValidNumber(number) {
		return nil
	}
	return number
}

func readPlan(digits, region string) *phonenumbers.PhoneNumber {
	number, err := phonenumbers.Parse(digits, region)
	if err != nil {
		return nil
	}
	return canonical(number)
}

func canonical(number *phonenumbers.PhoneNumber) *phonenumbers.PhoneNumber {
	return readE164(phonenumbers.Format(number, phonenumbers.E164))
}

// readE164 reads a number in international form. Parsing drops trunk prefixes, and what is left can parse differently
// again ("+4400..."), so it is repeated until the number stays the same: one number must have one identity.
func readE164(e164 string) *phonenumbers.PhoneNumber {
	for range 4 {
		number, err := phonenumbers.Parse(e164, "ZZ")
		if err != nil {
			return nil
		}
		again := phonenumbers.Format(number, phonenumbers.E164)
		if len(again)-1 > maxPhoneDigits {
			return nil
		}
		if again == e164 {
			return number
		}
		e164 = again
	}
	return nil
}

func phoneType(t phonenumbers.PhoneNumberType) string {
	switch t {
	case phonenumbers.FIXED_LINE:
		return "fixed_line"
	case phonenumbers.MOBILE:
		return "mobile"
	case phonenumbers.FIXED_LINE_OR_MOBILE:
		return "fixed_line_or_mobile"
	case phonenumbers.TOLL_FREE:
		return "toll_free"
	case phonenumbers.PREMIUM_RATE:
		return "premium_rate"
	case phonenumbers.SHARED_COST:
		return "shared_cost"
	case phonenumbers.VOIP:
		return "voip"
	case phonenumbers.PERSONAL_NUMBER:
		return "personal"
	case phonenumbers.PAGER:
		return "pager"
	case phonenumbers.UAN:
		return "uan"
	case phonenumbers.VOICEMAIL:
		return "voicemail"
	}
	return "unknown"
}

func possible(v phonenumbers.ValidationResult) string {
	switch v {
	case phonenumbers.IS_POSSIBLE:
		return "possible"
	case phonenumbers.IS_POSSIBLE_LOCAL_ONLY:
		return "local_only"
	case phonenumbers.TOO_SHORT:
		return "too_short"
	case phonenumbers.TOO_LONG:
		return "too_long"
	case phonenumbers.INVALID_LENGTH:
		return "invalid_length"
	}
	return ""
}
