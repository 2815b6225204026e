package bench

import "fmt"

// Bodies returns n distinct check requests that cycle through the four types, so that caches of entities do not distort
// the results.
func Bodies(n int) [][]byte {
	bodies := make([][]byte, n)
	for i := range bodies {
		switch i % 4 {
		case 0:
			bodies[i] = fmt.Appendf(nil, `{"domain":"shop-%d.example-store.com"}`, i)
		case 1:
			bodies[i] = fmt.Appendf(nil, `{"email":"customer.%d@mail.example.org"}`, i)
		case 2:
			bodies[i] = fmt.Appendf(nil, `{"phone":"+336%08d"}`, 12_000_000+i)
		case 3:
			bodies[i] = fmt.Appendf(nil, `{"iban":%q}`, germanIBAN(i))
		}
	}
	return bodies
}

// germanIBAN returns the n-th of a series of German IBANs with valid check digits (ISO 7064 MOD 97-10).
func germanIBAN(n int) string {
	bban := fmt.Sprintf("37040044%010d", n)
	remainder := 0
	for _, c := range bban + "131400" { // D = 13, E = 14
		remainder = (remainder*10 + int(c-'0')) % 97
	}
	return fmt.Sprintf("DE%02d%s", 98-remainder, bban)
}

// Domains returns n check requests for different registrable domains that are made of ordinary words.
func Domains(n int) [][]byte {
	first := [...]string{"blue", "harbor", "little", "maple", "north", "open", "prime", "silver"}
	second := [...]string{"bakery", "books", "design", "garden", "health", "studio", "travel", "works"}
	suffix := [...]string{"com", "de", "org", "shop", "fr", "net", "io", "co.uk"}
	bodies := make([][]byte, n)
	for i := range bodies {
		bodies[i] = fmt.Appendf(nil, `{"domain":"%s-%s-%d.%s"}`, first[i%8], second[i/8%8], i/512, suffix[i/64%8])
	}
	return bodies
}
