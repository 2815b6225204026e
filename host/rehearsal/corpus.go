package rehearsal

import (
	"strings"

	"assay/host/entity"
)

// Corpus returns values to measure a layer with: ordinary ones of each type, in several scripts and countries, and the
// longest that a host accepts. Nothing is looked up about them.
func Corpus() []Subject {
	label := strings.Repeat("abcdefghij", 6)
	longest := strings.Join([]string{label, label, label, label, "example"}, ".")
	values := map[entity.Type][]string{
		entity.Domain: {"example.com", "blumenwiese.de", "www.example.co.uk", "paypa1-secure-login.xyz",
			"shop20245.com", "xn--pypal-4ve.com", "bücher.example", "пример.рф", "例え.jp",
			"123-456-789.top", "a.b.c.d.e.example.org", "user.github.io", "x.io", label + ".com", longest},
		entity.Email: {"jane@example.com", "Jane.Doe+shop@googlemail.com", "j@x.io", "qzxv8842@mail.example",
			"info@paypa1-secure-login.xyz", "m.müller@bücher.example", "support@xn--pypal-4ve.com",
			strings.Repeat("a", 64) + "@" + label + ".com"},
		entity.Phone: {"+491712345678", "+33612345678", "+12125550123", "+442079460018", "+8613812345678",
			"+2348012345678", "+4990012345678", "+80012345678", "+39061234567", "+5511912345678"},
		entity.IBAN: {"DE89370400440532013000", "GB29NWBK60161331926819", "FR1420041010050500013M02606",
			"NO9386011117947", "MT84MALT011000012345MTLCAST001S", "NL91ABNA0417164300", "ES9121000418450200051332"},
	}
	var corpus []Subject
	for _, kind := range entity.Types() {
		for _, value := range values[kind] {
			corpus = append(corpus, Subject{Type: kind, Value: value})
		}
	}
	return corpus
}
