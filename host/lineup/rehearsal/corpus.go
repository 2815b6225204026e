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
	labels := strings.Repeat("a.", 125) + "com"
	words := strings.Repeat("login-", 9) + "bank." + strings.Repeat("secure1.", 23) + "xyz"
	scripts := strings.Repeat("pаypal-日本-ρıß.", 5) + "com"
	values := map[entity.Type][]string{
		entity.Domain: {"example.com", "blumenwiese.de", "www.example.co.uk", "paypa1-secure-login.xyz",
			"shop20245.com", "xn--pypal-4ve.com", "bücher.example", "пример.рф", "例え.jp",
			"123-456-789.top", "a.b.c.d.e.example.org", "user.github.io", "x.io", label + ".com", longest, labels,
			words, scripts},
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

// honestValues are values of honest owners, by type: well-known sites and small ones, people and businesses, in several
// scripts and countries. The accounts are made up, with the check digits of their countries.
var honestValues = map[entity.Type]string{
	entity.Domain: `wikipedia.org debian.org bbc.co.uk lemonde.fr sparkasse.de ing.nl booking.com github.com
		gov.uk example-university.edu stadt-zuerich.ch ministere-culture.gouv.fr
		blumen-hartmann.de fahrradwerkstatt-nord.de cafe-am-markt.at pizzeria-bella-vista.ch boulangerie-dupont.fr
		garage-lefevre.fr thecornerbakery.co.uk oakridge-dental.com smith-and-sons-roofing.com riverside-yoga.org
		panaderia-garcia.es ristorante-da-marco.it kwiaty-krakow.pl bloemenhuis-jansen.nl kahvila-aurora.fi
		müller-gartenbau.de bücherstube-linden.de новости-урала.рф 日本料理.jp 24h-schluesseldienst-koeln.de
		route66diner.com studio54berlin.de annas-recipes.wordpress.com my-portfolio.netlify.app
		openlibrary-docs.readthedocs.io shop.blumen-hartmann.de mail.oakridge-dental.com xkcd.com q4.io
		secure-parking-zurich.ch onlinebanking-museum.de`,
	entity.Email: `jane.roe@outlook.com thomas.mueller@web.de m.rossi@libero.it sophie.martin@orange.fr
		jan.kowalski@wp.pl carlos_garcia@yahoo.es a.jansen@kpnmail.nl emma.larsson@icloud.com k.tanaka@docomo.ne.jp
		ivan.petrov@yandex.ru olivia.brown.1987@gmail.com lukas.bauer+shop@gmail.com sara@proton.me
		info@blumen-hartmann.de kontakt@fahrradwerkstatt-nord.de accueil@boulangerie-dupont.fr
		hello@thecornerbakery.co.uk reception@oakridge-dental.com office@smith-and-sons-roofing.com
		jsmith@example-university.edu m.weber@stadt-zuerich.ch buchhaltung@müller-gartenbau.de
		orders@panaderia-garcia.es j.r.tolkien@riverside-yoga.org x@q4.io`,
	entity.Phone: `+4915223433333 +493088765432 +33698765421 +33142685300 +447700812346 +441212345698 +34612345778
		+393471234598 +390245678123 +31612345698 +32470123486 +41781234587 +436641234987 +48512345698 +46701234987
		+4532123486 +4740612387 +358412345698 +351912345698 +353850123496 +12124567890 +15062345698 +61412345698
		+819012345698 +918123456798 +5511961234587 +27711234598`,
	entity.IBAN: `DE26500105175260181590 DE92120300008301661318 DE38200411336091390996 DE48370400440308246281
		DE93701500009482199351 DE17100500008190937865 NL64RABO0890786666 NL16ABNA0483478245 NL37INGB0470455853
		FR7630004008180435205617456 FR7620041010058338014126969 FR7630002005500604431982965 ES2921000418456572492086
		ES0200491500068288909310 ES9101822370410251678008 BE65310374071896 BE62001818174161 AT262011143337761740
		AT231200093192544992 CH2500700795422058791 CH8100700771834170471 GB87NWBK60161387463319
		GB51BARC20041512845298`,
}

// honestFacts are sets of facts about names of honest owners: none, those of an older name, and those of a new one.
var honestFacts = []map[string]string{
	nil,
	{"dns.status": "ok", "dns.zone": "ok", "dns.mx": "mail.example.net", "dns.networks": "1", "dns.ttl": "3600",
		"rdap.found": "yes", "rdap.age_days": "2190", "rdap.created": "2020-03-02", "history.first_seen_days": "60"},
	{"dns.status": "ok", "dns.zone": "ok", "dns.mx": "mail.example.net", "dns.networks": "1", "dns.ttl": "300",
		"rdap.found": "yes", "rdap.age_days": "12", "rdap.created": "2026-03-02"},
}

// Honest returns values that no layer should flag by itself. Names come with several sets of facts.
func Honest() []Subject {
	var all []Subject
	for _, kind := range entity.Types() {
		facts := honestFacts
		if kind == entity.Phone || kind == entity.IBAN {
			facts = facts[:1]
		}
		for _, value := range strings.Fields(honestValues[kind]) {
			for _, known := range facts {
				all = append(all, Subject{Type: kind, Value: value, Facts: known})
			}
		}
	}
	return all
}
