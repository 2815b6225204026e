package entity

import (
	"fmt"
	"regexp"
	"strings"
	"unicode"
	"unicode/utf8"
)

// ValidateText requires a text of people, such as a name, a reason or a note, that lists, pages and terminals can show
// as it is: at most a number of bytes, UTF-8, not blank, and no character that IsHidden; of controls, a note of several
// lines may have tabs and line ends. The error is an *InvalidError.
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

// ValidateID requires the prefix and a ULID of text, which is what the error, an *InvalidError, calls it.
func ValidateID(field, text, prefix, what string) error {
	if id, ok := strings.CutPrefix(text, prefix); !ok || !ulid.MatchString(id) {
		return &InvalidError{Field: field, Reason: fmt.Sprintf("must be the %s, %s and 26 characters", what, prefix)}
	}
	return nil
}

// IsHidden reports whether a character controls how others are shown: controls, direction marks, line separators and
// kin. The joiners of scripts and emoji are not among them.
func IsHidden(r rune) bool {
	const nonJoiner, joiner = 0x200c, 0x200d
	return unicode.In(r, unicode.C, unicode.Zl, unicode.Zp) && r != nonJoiner && r != joiner
}
