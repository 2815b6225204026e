//go:build !wasip1

package sdk

import "golang.org/x/text/unicode/norm"

// isVirama reports whether r is a virama, by its combining class.
func isVirama(r rune) bool {
	const virama = 9
	return norm.NFC.PropertiesString(string(r)).CCC() == virama
}

// decompose returns r without compatibility differences, its accents as characters of their own (NFKD).
func decompose(r rune) string { return norm.NFKD.String(string(r)) }
