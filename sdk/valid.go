//go:build !wasip1

// These checks are for hosts and Run. They stay out of guests, because fmt would make each guest larger and the host
// checks every answer anyway.

package sdk

import (
	"fmt"
	"unicode/utf8"
)

// ValidCode returns an error unless code is a signal code: three or more words of a-z, 0-9, '_' or '-', joined by
// colons as group:kind:detail (contract section 2.3).
func ValidCode(code string) error {
	if len(code) > MaxCodeBytes {
		return fmt.Errorf("signal code of %d bytes is longer than %d", len(code), MaxCodeBytes)
	}
	parts, word := 1, 0
	for i := range len(code) {
		switch c := code[i]; {
		case c >= 'a' && c <= 'z', c >= '0' && c <= '9', c == '_', c == '-':
			word++
		case c == ':' && word > 0:
			parts, word = parts+1, 0
		default:
			return fmt.Errorf("signal code %q is not of the form group:kind:detail in a-z, 0-9, _ and -", code)
		}
	}
	if parts < 3 || word == 0 {
		return fmt.Errorf("signal code %q is not of the form group:kind:detail", code)
	}
	return nil
}

// ValidText returns an error if text cannot be shown to a person: if it is empty, longer than MaxTextBytes, not UTF-8,
// or contains a control character.
func ValidText(text string) error {
	if text == "" {
		return fmt.Errorf("signal text is empty")
	}
	if len(text) > MaxTextBytes {
		return fmt.Errorf("signal text of %d bytes is longer than %d", len(text), MaxTextBytes)
	}
	if !utf8.ValidString(text) {
		return fmt.Errorf("signal text is not UTF-8")
	}
	for _, r := range text {
		if r < 0x20 || (r >= 0x7f && r < 0xa0) || r == 0x2028 || r == 0x2029 || (r >= 0x202a && r <= 0x202e) ||
			(r >= 0x2066 && r <= 0x2069) {
			return fmt.Errorf("signal text contains the control character U+%04X", r)
		}
	}
	return nil
}
