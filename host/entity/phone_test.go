package entity

import "testing"

func TestPhoneFacts(t *testing.T) {
	t.Parallel()
	for _, c := range map[string]struct {
		raw, country, value string
		want                Facts
	}{
		"French mobile": {"+33 6 12 34 56 78", "", "+33612345678",
			Facts{"phone.e164": "+33612345678", "phone.country": "FR",
				"phone.calling_code": "33", "phone.national": "612345678", "phone.type": "mobile", "phone.valid": "yes",
				"phone.possible": "possible", "phone.assumed": "no", "phone.otherwise_ordinary": "no"}},
		"tel URI": {"tel:+1-202-456-1111;ext=7", "", "+12024561111", Facts{"phone.type": "fixed_line_or_mobile"}},
		"leading zero kept": {"+39 06 6982 1234", "", "+390669821234", Facts{
			"phone.calling_code": "39", "phone.national": "0669821234"}},
		"00 for plus":          {"0033612345678", "", "+33612345678", Facts{"phone.assumed": "no"}},
		"00 from the US":       {"0033612345678", "US", "+33612345678", Facts{"phone.country": "FR"}},
		"011 from the US":      {"01133612345678", "US", "+33612345678", Facts{"phone.country": "FR"}},
		"trunk in parentheses": {"+44 (0)20 7946 0018", "", "+442079460018", Facts{"phone.country": "GB"}},
		"plus in parentheses":  {"(+33) 6.12.34.56.78", "", "+33612345678", nil},
		"tel URI with context": {"tel:+1-202-456-1111;phone-context=example.com", "", "+12024561111", nil},
		"extension":            {"+1 202-456-1111 ext. 123", "", "+12024561111", nil},
		"extension, paused":    {"+1 (202) 456-1111,,123", "", "+12024561111", nil},
		"extension, Russian":   {"+7 (495) 123-45-67 доб. 123", "", "+74951234567", nil},
		"fullwidth":            {"＋３３６１２３４５６７８", "", "+33612345678", nil},
		"Arabic digits":        {"+٣٣٦١٢٣٤٥٦٧٨", "", "+33612345678", nil},
		"mathematical digits":  {"+33𝟼𝟷𝟸𝟹𝟺𝟻𝟼𝟽𝟾", "", "+33612345678", nil},
		"spelt":                {"+1-800-FLOWERS", "", "+18003569377", Facts{"phone.type": "toll_free"}},
		"spelt, country named": {"0800 buc hen", "DE", "+49800282436", nil},
		"every letter":         {"800 ABCDEFGHIJKL", "US", "800222333444555", nil},
		"the other letters":    {"800 MNOPQRSTUVWX", "US", "800666777788899", nil},
		"the last letters":     {"800 YZ YZ YZ", "US", "+1800999999", Facts{"phone.valid": "no"}},
		"direction marks":      {"\u202a+33 6 12 34 56 78\u202c", "", "+33612345678", nil},
		"tab and NBSP":         {"+33\t6\u00a012 34 56 78", "", "+33612345678", nil},
		"national, country named": {"030 901820", "DE", "+4930901820", Facts{
			"phone.assumed": "no", "phone.country": "DE"}},
		"national, US named": {"(202) 456-1111", "us", "+12024561111", Facts{
			"entity.country": "US", "phone.assumed": "no"}},
		"short in a small plan": {"42143", "AC", "+24742143", Facts{"phone.valid": "yes", "phone.country": "AC"}},
		"lost plus, country named": {"442079460018", "FR", "+442079460018", Facts{
			"phone.assumed": "yes", "phone.country": "GB"}},
		"lost plus, grouped abroad": {"45 31 23 45 67", "US", "+4531234567", Facts{"phone.country": "DK"}},
		"grouped as in the named country": {"(453) 123-4567", "US", "+14531234567", Facts{
			"phone.valid": "no", "phone.country": "US", "phone.assumed": "no"}},
		"lost plus, own country": {"4915123456789", "DE", "+4915123456789", Facts{
			"phone.assumed": "no", "phone.type": "mobile"}},
		"dialled in Australia":        {"0011 61 2 9374 4000", "AU", "+61293744000", Facts{"phone.valid": "yes"}},
		"dialled with 00, or 001":     {"00 1 659 234 5678", "KR", "+16592345678", Facts{"phone.country": "US"}},
		"dialled with sixteen digits": {"011 49 1512 3456789", "US", "+4915123456789", nil},
		"lost plus":                   {"33612345678", "", "+33612345678", Facts{"phone.assumed": "yes"}},
		"guessed by grouping": {"06 12 34 56 78", "", "+33612345678", Facts{
			"phone.assumed": "yes", "phone.country": "FR"}},
		"guessed as Spanish": {"612 34 56 78", "", "+34612345678", Facts{
			"phone.assumed": "yes", "phone.country": "ES"}},
		"bare digits, no trunk": {"612345678", "", "+34612345678", Facts{"phone.country": "ES"}},
		"bare digits, trunk":    {"0612345678", "", "+49612345678", Facts{"phone.country": "DE"}},
		"grouped with hyphens":  {"06-12-34-56-78", "", "+33612345678", Facts{"phone.country": "FR"}},
		"guessed as American": {"(800) 253-7078", "", "+18002537078", Facts{
			"phone.assumed": "yes", "phone.type": "toll_free"}},
		"premium rate or mobile elsewhere": {"0912 345 6115", "", "+449123456115", Facts{
			"phone.type": "premium_rate", "phone.otherwise_ordinary": "yes"}},
		"premium rate in every likely plan": {"0 899 12 34 56", "", "+33899123456", Facts{
			"phone.type": "premium_rate", "phone.otherwise_ordinary": "no"}},
		"guessed by population": {"0301234567", "", "+49301234567", Facts{
			"phone.assumed": "yes", "phone.country": "DE"}},
		"Hungarian trunk 06": {"(06 1) 265 9478", "", "+3612659478", Facts{"phone.country": "HU"}},
		"fits no plan": {"099999999999999", "", "099999999999999", Facts{
			"phone.valid": "no", "phone.e164": "", "phone.assumed": "yes", "phone.country": ""}},
		"unknown calling code": {"+999 123 456", "", "+999123456", Facts{
			"phone.valid": "no", "phone.e164": "", "phone.assumed": "no"}},
		"too short for its plan": {"+33 6 12 34", "", "+3361234", Facts{
			"phone.valid": "no", "phone.possible": "too_short"}},
		"too long for its plan": {"+336123456789", "", "+336123456789", Facts{
			"phone.valid": "no", "phone.possible": "too_long"}},
		"short, country named": {"116 117", "DE", "116117", Facts{
			"phone.valid": "yes", "phone.type": "unknown", "phone.e164": "", "phone.assumed": "no"}},
		"short, no country":        {"116117", "", "116117", Facts{"phone.valid": "no", "phone.assumed": "yes"}},
		"short in another country": {"262966", "FR", "+33262966", Facts{"phone.valid": "no"}},
		"short after a trunk":      {"0116117", "DE", "+49116117", Facts{"phone.valid": "no"}},
		"invalid, country named": {"555 555 5555", "US", "+15555555555", Facts{
			"phone.valid": "no", "phone.country": "US"}},
		"too long with its country": {"012345678901234", "LU", "012345678901234", Facts{
			"phone.valid": "no", "phone.e164": ""}},
		"premium rate": {"+1 900 234 5678", "", "+19002345678", Facts{"phone.type": "premium_rate"}},
		"not geographic": {"+979 1 2345 7309", "", "+979123457309", Facts{
			"phone.country": "001", "phone.type": "premium_rate"}},
		"Brazilian fixed line": {"+55 11 3123-4567", "", "+551131234567", Facts{"phone.type": "fixed_line"}},
		"Mexican mobile with a 1": {"+52 1 55 1234 5678", "", "+525512345678", Facts{
			"phone.valid": "yes", "phone.country": "MX"}},
		"Mexican mobile, dialled":           {"044 55 1234 5678", "MX", "+525512345678", Facts{"phone.valid": "yes"}},
		"the same without a plus":           {"5213312345678", "", "+523312345678", Facts{"phone.assumed": "yes"}},
		"Mexican with a 1, country named":   {"1 33 1234 5678", "MX", "+523312345678", Facts{"phone.valid": "yes"}},
		"Brazilian without the ninth digit": {"+55 11 6123-4567", "", "+5511961234567", Facts{"phone.type": "mobile"}},
		"the same, country named":           {"(21) 8765-4321", "BR", "+5521987654321", Facts{"phone.valid": "yes"}},
		"Brazilian mobile with too few":     {"+55 11 612-3456", "", "+55116123456", Facts{"phone.valid": "no"}},
		"country without numbering":         {"0301234567", "AQ", "+49301234567", Facts{"phone.assumed": "yes"}},
	} {
		checkFactsIn(t, Phone, c.raw, c.country, c.value, c.want)
	}
}

func TestPhoneRefused(t *testing.T) {
	t.Parallel()
	checkRefused(t, Phone, map[string]refused{
		"letters":                   {"+33 six", "", "contains letters"},
		"only plus":                 {"+", "", "no digits"},
		"five digits":               {"12345", "", "fewer than 6"},
		"five international":        {"+12345", "AC", "fewer than 6"},
		"short, not in plan":        {"12345", "DE", "fewer than 6"},
		"sixteen digits":            {"+1234567890123456", "", "more than 15"},
		"inner plus":                {"33+612345678", "", "not part of a phone number"},
		"service code":              {"*#06#123456", "", "not part of a phone number"},
		"two numbers":               {"+33612345678, +33612345679", "", "not part of a phone number"},
		"a name after the number":   {"070 123 45 67 (Axel)", "", "contains letters"},
		"two letters":               {"+1 800 55 ab", "", "contains letters"},
		"letters of another script": {"+1 800 цветы", "", "contains letters"},
		"extension too long":        {"+33612345678x12345678", "", "contains letters"},
		"extension only":            {"ext 1234567", "", "no digits"},
		"superscript numeral":       {"+3361234567²", "", "not part of a phone number"},
	})
}

func FuzzPhone(f *testing.F) {
	for _, s := range []string{"+33 6 12 34 56 78", "0033612345678", "(202) 456-1111 ext. 9",
		"tel:+1-202-456-1111;ext=7", "+44 (0)20 7946 0018",
		"٠٦١٢٣٤٥٦٧٨", "+4400207946001", "+490123", "000123456", "0000", "42143", "8 029 467-19-84",
		"02 4645", "116117",
		"+54 9 11 2345 6789", "1-800-133-719"} {
		for _, country := range []string{"", "DE", "US", "AC", "BR", "CV", "RU"} {
			f.Add(s, country)
		}
	}
	f.Fuzz(func(t *testing.T, raw, country string) { checkParse(t, Phone, raw, country) })
}
