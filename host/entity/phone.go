package entity

import (
	"cmp"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/nyaruka/phonenumbers"
)

// The limits on the digits of a number. ITU-T E.164 section 6.2.1 allows 15, including the country code. Shorter
// numbers than 6 digits are short codes, except in small numbering plans, where they are read if the request names the
// country.
const (
	minPhoneDigits   = 6
	maxPhoneDigits   = 15
	maxDialledDigits = maxPhoneDigits + 5 // with the prefix of a call abroad
	longNational     = 10                 // few national numbers are longer
)

// unionPlans lists the member states of the EU by population (Eurostat, 2024). A national number that fits several
// numbering plans equally well is read in the first.
var unionPlans = strings.Fields("DE FR IT ES PL RO NL BE CZ PT SE GR HU AT BG DK FI SK IE HR LT SI LV EE CY LU MT")

// otherPlans lists the plans to try after those of the EU: its large neighbours, then other countries with many
// inhabitants (United Nations, World Population Prospects 2024).
var otherPlans = strings.Fields("" +
	"GB TR UA CH NO RS US IN BR MX RU IL AU JP ID PK NG BD PH EG VN IR TH ZA KR CO AR MA SA")

func readPhone(text, region string, facts Facts) (string, error) {
	d, err := readDial(text)
	if err != nil {
		return "", err
	}
	n := len(d.digits)
	if n > maxDialledDigits || n > maxPhoneDigits && d.international && !d.dialled {
		return "", refuse("has more than %d digits", maxPhoneDigits)
	} else if n < minPhoneDigits && (d.international || region == union) {
		return "", refuse("has fewer than %d digits", minPhoneDigits)
	}
	number, assumed, otherwiseOrdinary := d.number(region)
	if n < minPhoneDigits && !isValid(number) {
		return "", refuse("has fewer than %d digits", minPhoneDigits)
	}
	if n > maxPhoneDigits && !isValid(number) {
		return "", refuse("has more than %d digits", maxPhoneDigits)
	}
	short := !isValid(number) && !d.international && isShort(d.digits, region)
	facts.setYes("phone.assumed", assumed && !short)
	if number == nil || short {
		facts.setYes("phone.valid", short)
		facts.set("phone.type", "unknown")
		return d.String(), nil
	}
	facts.setYes("phone.otherwise_ordinary", otherwiseOrdinary)
	e164 := phonenumbers.Format(number, phonenumbers.E164)
	if n := len(e164) - 1; n < minPhoneDigits {
		return "", refuse("has fewer than %d digits", minPhoneDigits)
	} else if n > maxPhoneDigits {
		return "", refuse("has more than %d digits", maxPhoneDigits)
	}
	country := phonenumbers.GetRegionCodeForNumber(number)
	if country == "" && !d.international && region != union && !assumed {
		// If countries share a calling code, only the request identifies the country of an invalid number.
		country = region
	}
	facts.set("phone.e164", e164)
	facts.set("phone.country", country)
	national := phonenumbers.GetNationalSignificantNumber(number)
	facts.set("phone.calling_code", strings.TrimSuffix(e164[1:], national))
	facts.set("phone.national", national)
	facts.set("phone.type", cmp.Or(phoneTypes[phonenumbers.GetNumberType(number)], "unknown"))
	facts.setYes("phone.valid", phonenumbers.IsValidNumber(number))
	facts.set("phone.possible", possibilities[phonenumbers.IsPossibleNumberWithReason(number)])
	return e164, nil
}

// dial is a number as dialled, without a country.
type dial struct {
	text          string // as written, without extension
	digits        string // ASCII, without the prefix 00
	international bool   // began with '+' or 00
	dialled       bool   // began with 00
	groups        []int  // lengths of the groups of digits, in order
}

// String returns the normalised value of a number that fits no numbering plan.
func (d dial) String() string {
	if d.international {
		return "+" + d.digits
	}
	return d.digits
}

// keypad has the digit of each letter from A to Z on a telephone (ITU-T E.161 section 3.2).
const keypad = "22233344455566677778889999"

// A number that is partly spelt, such as 1-800-FLOWERS, begins with the digits of its area and then has a word. Letters
// after more digits are a remark, such as a name.
const (
	minBeforeLetters = 3
	maxBeforeLetters = 8
	minLetters       = 3
)

// readDial parses a number without its formatting, its extension and a "tel:" prefix (RFC 3966). It accepts the digits
// of all scripts, and letters for digits.
func readDial(text string) (dial, error) {
	number := cutExtension(text)
	if len(number) >= 4 && strings.EqualFold(number[:4], "tel:") {
		number, _, _ = strings.Cut(number[4:], ";")
	}
	d := dial{text: number}
	var digits []byte
	run, letters := 0, 0
	for _, r := range number {
		v, ok := digitValue(r)
		before := len(digits) - letters
		if upper := r &^ 0x20; !ok && minBeforeLetters <= before && before <= maxBeforeLetters &&
			'A' <= upper && upper <= 'Z' {
			v, ok = int(keypad[upper-'A']-'0'), true
			letters++
		}
		if ok {
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
	if letters > 0 && letters < minLetters {
		return dial{}, refuse("contains letters; send digits only")
	}
	d.digits = string(digits)
	if d.digits == "" {
		return dial{}, refuse("contains no digits")
	}
	if rest, found := strings.CutPrefix(d.digits, "00"); found && !d.international {
		d.digits, d.international, d.dialled = rest, true, true // the most common international prefix (ITU-T E.164)
	}
	return d, nil
}

// digitValue returns the value of a decimal digit of any script. In Unicode, the ten digits of a script are contiguous,
// and the ranges of category Nd consist of such tens.
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

// isPhoneSeparator reports whether r is a separator between digits or an invisible character, as in pasted numbers.
func isPhoneSeparator(r rune) bool {
	return unicode.IsSpace(r) || unicode.Is(unicode.Pd, r) || isBidiControl(r) ||
		strings.ContainsRune("()[]./·•~−（）．／\u200b\u2060\ufeff\u00ad", r)
}

// cutExtension removes an extension of at most 7 digits: "ext. 12", "x12", "#12", ";ext=12" (RFC 3966), or ",,12",
// which means dialling after a pause.
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

// number reads d, in the region's numbering plan if d is a national number. It returns nil if d fits no plan. assumed
// reports whether the country is a guess. otherwiseOrdinary is as in guess.
func (d dial) number(region string) (number *phonenumbers.PhoneNumber, assumed, otherwiseOrdinary bool) {
	code := phonenumbers.GetCountryCodeForRegion(region)
	if d.international {
		number = readE164("+" + d.digits)
		if d.dialled && code != 0 && !isValid(number) { // such as 0011 in Australia, or 001 in Singapore
			if abroad := readPlan("00"+d.digits, region); isValid(abroad) {
				return abroad, false, false
			}
		}
		return number, false, false
	}
	if code != 0 {
		// In some countries, a mobile number with the country code but no '+' is also a valid landline number.
		if len(d.digits) > longNational && strings.HasPrefix(d.digits, strconv.Itoa(code)) {
			if whole := d.withoutPlus(); whole != nil && isOrdinary(whole) {
				return whole, false, false
			}
		}
		number := readPlan(d.digits, region)
		if isValid(number) {
			return number, false, false
		}
		grouped := number != nil && d.similarity(phonenumbers.Format(number, phonenumbers.NATIONAL)) >= sameGroups
		if guess := d.withoutPlus(); guess != nil && !grouped {
			return guess, true, false
		}
		return number, false, false
	}
	number, otherwiseOrdinary = d.guess()
	return number, true, otherwiseOrdinary
}

// guess reads a national number whose country is unknown. Many plans accept the same digits, so the plan whose format
// resembles the number most wins: "(800) 253-7078" is North American, "800 25 37 07" is not. Of equally likely plans
// the first wins; the EU's plans come first. otherwiseOrdinary reports that the result is a special number, such as
// premium rate, but a mobile or fixed line in another, equally likely plan.
func (d dial) guess() (best *phonenumbers.PhoneNumber, otherwiseOrdinary bool) {
	if len(d.digits) > longNational {
		if number := d.withoutPlus(); number != nil {
			return number, false
		}
	}
	highest := otherDigits
	for _, plans := range [][]string{unionPlans, otherPlans} {
		for _, region := range plans {
			number, err := phonenumbers.Parse(d.digits, region)
			if err != nil || !phonenumbers.IsValidNumber(number) {
				continue
			}
			s := d.similarity(phonenumbers.Format(number, phonenumbers.NATIONAL))
			switch {
			case s > highest:
				best, highest, otherwiseOrdinary = number, s, false
			case s == highest && best != nil && !otherwiseOrdinary:
				otherwiseOrdinary = isOrdinary(number) && !isOrdinary(best)
			}
			if highest == sameText && (otherwiseOrdinary || isOrdinary(best)) {
				return canonical(best), otherwiseOrdinary
			}
		}
	}
	if best == nil {
		return d.withoutPlus(), false
	}
	return canonical(best), otherwiseOrdinary
}

func isValid(number *phonenumbers.PhoneNumber) bool {
	return number != nil && phonenumbers.IsValidNumber(number)
}

// isOrdinary reports whether number is a mobile or fixed line.
func isOrdinary(number *phonenumbers.PhoneNumber) bool {
	switch phonenumbers.GetNumberType(number) {
	case phonenumbers.MOBILE, phonenumbers.FIXED_LINE, phonenumbers.FIXED_LINE_OR_MOBILE:
		return true
	}
	return false
}

// The similarity of a number as written and in a plan's national format, lowest first. The digits differ if only one of
// the two has a trunk prefix. Digits without separators reach at most sameDigits.
const (
	otherDigits = iota
	sameDigits
	sameGroups
	sameText
)

func (d dial) similarity(formatted string) int {
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

// runs returns the ASCII digits of s and the lengths of their groups.
func runs(s string) (digits string, groups []int) {
	for _, run := range strings.FieldsFunc(s, func(r rune) bool { return r < '0' || r > '9' }) {
		digits += run
		groups = append(groups, len(run))
	}
	return digits, groups
}

// withoutPlus reads d as an international number without its '+'. It returns nil if that is not a valid number.
func (d dial) withoutPlus() *phonenumbers.PhoneNumber {
	number := readE164("+" + d.digits)
	if number == nil || !phonenumbers.IsValidNumber(number) {
		return nil
	}
	return number
}

// isShort reports whether digits are a short number, such as 116117, which can be called only within its country.
func isShort(digits, region string) bool {
	number, err := phonenumbers.Parse(digits, region)
	return err == nil && phonenumbers.GetNationalSignificantNumber(number) == digits &&
		phonenumbers.IsValidShortNumberForRegion(number, region)
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

// readE164 parses an international number, or returns nil. Parsing drops trunk prefixes, and the result can parse
// differently again ("+4400..."). Parsing is repeated until the number is stable, so that it has one normalised value.
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
		if again != e164 {
			e164 = again
		} else if modern := modernForm(e164); modern != "" && !phonenumbers.IsValidNumber(number) {
			e164 = modern
		} else {
			return number
		}
	}
	return nil
}

// modernForm returns the present form of a mobile number in an old form that networks and address books still use, or
// "": Mexico's with the 1, 01, 044 or 045 that were dropped in 2019, and Brazil's without the ninth digit.
func modernForm(e164 string) string {
	for _, old := range []string{"+521", "+5201", "+52044", "+52045"} {
		if national, found := strings.CutPrefix(e164, old); found && len(national) == 10 {
			return "+52" + national
		}
	}
	if national, found := strings.CutPrefix(e164, "+55"); found && len(national) == 10 && national[2] >= '6' {
		return "+55" + national[:2] + "9" + national[2:]
	}
	return ""
}

// phoneTypes has the values of phone.type; other types are unknown.
var phoneTypes = map[phonenumbers.PhoneNumberType]string{
	phonenumbers.FIXED_LINE: "fixed_line", phonenumbers.MOBILE: "mobile",
	phonenumbers.FIXED_LINE_OR_MOBILE: "fixed_line_or_mobile", phonenumbers.TOLL_FREE: "toll_free",
	phonenumbers.PREMIUM_RATE: "premium_rate", phonenumbers.SHARED_COST: "shared_cost", phonenumbers.VOIP: "voip",
	phonenumbers.PERSONAL_NUMBER: "personal", phonenumbers.PAGER: "pager", phonenumbers.UAN: "uan",
	phonenumbers.VOICEMAIL: "voicemail",
}

// possibilities has the values of phone.possible.
var possibilities = map[phonenumbers.ValidationResult]string{
	phonenumbers.IS_POSSIBLE: "possible", phonenumbers.IS_POSSIBLE_LOCAL_ONLY: "local_only",
	phonenumbers.TOO_SHORT: "too_short", phonenumbers.TOO_LONG: "too_long",
	phonenumbers.INVALID_LENGTH: "invalid_length",
}
