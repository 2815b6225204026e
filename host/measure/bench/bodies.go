package bench

import "fmt"

// Bodies returns n distinct check requests that cycle through the four types, so that caches of entities do not distort
// the results.
func Bodies(n int) [][]byte {
	bodies := make([][]byte, n)
	for i := range bodies {
		field, value := Value(i)
		bodies[i] = fmt.Appendf(nil, `{%q:%q}`, field, value)
	}
	return bodies
}

// Value returns the n-th of a series of distinct entities, and the field of a request that names it. Consecutive ones
// cycle through the four types.
func Value(n int) (field, value string) {
	switch n % 4 {
	case 0:
		return "domain", fmt.Sprintf("shop-%d.example-store.com", n)
	case 1:
		return "email", fmt.Sprintf("customer.%d@mail.example.org", n)
	case 2:
		return "phone", fmt.Sprintf("+336%08d", 12_000_000+n)
	default:
		return "iban", germanIBAN(n)
	}
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
