package entity

import (
	"strings"
	"unicode"
)

// The limits on an IBAN. By ISO 13616-1 it has two letters, two check digits and a BBAN of at most 30 characters. The
// minimum is below the shortest registered length (Norway's 15), so that a truncated IBAN is still scored.
const (
	minIBANBytes = 8
	maxIBANBytes = 34
)

func readIBAN(text, _ string, facts Facts) (string, error) {
	code, err := ibanCode(text)
	if err != nil {
		return "", err
	}
	if len(code) > maxIBANBytes {
		return "", refuse("is longer than %d characters, the maximum for an IBAN", maxIBANBytes)
	}
	if len(code) < minIBANBytes {
		return "", refuse("is shorter than %d characters", minIBANBytes)
	}
	if !ibanShaped(code) {
		return "", refuse("does not start with two letters for the country and two check digits")
	}
	country, bban := code[:2], code[4:]
	facts.set("iban.country", country)
	facts.set("iban.check_digits", code[2:4])
	facts.set("iban.bban", bban)
	facts.set("iban.check", okOrWrong(ibanCheckHolds(code)))
	form, listed := ibanForms[country]
	facts.setYes("iban.listed", listed)
	if !listed {
		return code, nil
	}
	facts.setYes("iban.sepa", form.sepa)
	structure := form.fit(bban)
	facts.set("iban.structure", structure)
	if structure != "ok" {
		return code, nil
	}
	facts.set("iban.bank", bban[form.bank.from:form.bank.to])
	facts.set("iban.branch", bban[form.branch.from:form.branch.to])
	facts.set("iban.account", bban[max(form.bank.to, form.branch.to):])
	if holds, known := nationalCheck(country, bban); known {
		facts.set("iban.national", okOrWrong(holds))
	}
	return code, nil
}

func okOrWrong(ok bool) string {
	if ok {
		return "ok"
	}
	return "wrong"
}

// ibanCode returns the electronic format of ISO 13616-1: capitals and digits without separators. It drops white space,
// hyphens and dashes, and a leading "IBAN" or "IBAN:", which invoices print.
func ibanCode(text string) (string, error) {
	code := make([]byte, 0, maxIBANBytes)
	for _, r := range text {
		switch {
		case unicode.IsSpace(r), r == '-', r == '\u2010', r == '\u2011', r == '\u2013':
		case r == ':' && string(code) == "IBAN":
		case r >= 'a' && r <= 'z':
			code = append(code, byte(r)-'a'+'A')
		case r >= 'A' && r <= 'Z', r >= '0' && r <= '9':
			code = append(code, byte(r))
		default:
			return "", refuse("contains %s; an IBAN consists of letters A-Z and digits", excerpt(string(r)))
		}
	}
	return strings.TrimPrefix(string(code), "IBAN"), nil
}

// ibanShaped reports whether code has the form of an IBAN of any country.
func ibanShaped(code string) bool {
	return len(code) >= minIBANBytes && len(code) <= maxIBANBytes &&
		isCapital(code[0]) && isCapital(code[1]) && isDigit(code[2]) && isDigit(code[3])
}

func isCapital(c byte) bool { return c >= 'A' && c <= 'Z' }

// ibanCheckHolds verifies the check digits by ISO 7064 mod 97-10. They are 98 minus a remainder of 0 to 96, so 00, 01
// and 99 are never issued, although they satisfy the congruence for some IBANs.
func ibanCheckHolds(code string) bool {
	digits := code[2:4]
	return digits != "00" && digits != "01" && digits != "99" && mod97(code[4:]+code[:4]) == 1
}

// mod97 returns the remainder by 97 of s read as a decimal number, with its letters replaced by 10 to 35.
func mod97(s string) int {
	n := 0
	for i := range len(s) {
		if isDigit(s[i]) {
			n = (n*10 + int(s[i]-'0')) % 97
		} else {
			n = (n*100 + int(s[i]-'A') + 10) % 97
		}
	}
	return n
}

// fit compares a BBAN with the form and returns "ok", "length" or "format".
func (f ibanForm) fit(bban string) string {
	at, ok := 0, true
	for rest := f.bban; rest != ""; {
		var count int
		var class byte
		count, class, rest = nextField(rest)
		if at+count > len(bban) {
			return "length"
		}
		for _, c := range []byte(bban[at : at+count]) {
			// Class c allows all characters of the electronic format.
			ok = ok && (class != 'n' || isDigit(c)) && (class != 'a' || isCapital(c))
		}
		at += count
	}
	switch {
	case at != len(bban):
		return "length"
	case !ok:
		return "format"
	}
	return "ok"
}

// nextField splits off the first field of a BBAN structure such as "8n10n".
func nextField(spec string) (count int, class byte, rest string) {
	i := 0
	for ; isDigit(spec[i]); i++ {
		count = count*10 + int(spec[i]-'0')
	}
	return count, spec[i], spec[i+1:]
}
