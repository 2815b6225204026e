package entity

import (
	"fmt"
	"regexp"
	"strings"
	"unicode"
	"unicode/utf8"
)

// ValidateText checks that lists, pages and terminals can show a text of a person, such as a name, reason or note: it
// is valid UTF-8 of at most limit bytes, not blank, and has no hidden characters (see IsHidden), except tabs and line
// ends if lines is set. The error is an *InvalidError.
func ValidateText(field, text string, limit int, lines bool) error {
	hidden := func(r rune) bool { return IsHidden(r) && !(lines && (r == '\n' || r == '\r' || r == '\t')) }
	switch {
	case strings.TrimSpace(text) == "":
		return &InvalidError{Field: field, Reason: "is required"}
	case len(text) > limit:
		return &InvalidError{Field: field, Reason: fmt.Sprintf("is longer than %d bytes", limit)}
	case !utf8.ValidString(text) || strings.ContainsFunc(text, hidden):
		return &InvalidError{Field: field,
			Reason: "contains control characters, marks that change the direction of text, or invalid UTF-8"}
	}
	return nil
}

// ulid matches a ULID in Crockford's base 32.
var ulid = regexp.MustCompile(`^[0-7][0-9A-HJKMNP-TV-Z]{25}$`)

// ValidateID checks that text is prefix and a ULID. what names such an ID in the error, an *InvalidError.
func ValidateID(field, text, prefix, what string) error {
	if id, ok := strings.CutPrefix(text, prefix); !ok || !ulid.MatchString(id) {
		return &InvalidError{Field: field, Reason: fmt.Sprintf("must be the %s, %s and 26 characters", what, prefix)}
	}
	return nil
}

// IsHidden reports whether a character controls how others are shown, as control characters, direction marks and line
// separators do. It is false for the joiners of scripts and emoji.
func IsHidden(r rune) bool {
	const nonJoiner, joiner = 0x200c, 0x200d
	return unicode.In(r, unicode.C, unicode.Zl, unicode.Zp) && r != nonJoiner && r != joiner
}
