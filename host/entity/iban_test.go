package entity

import (
	"slices"
	"strings"
	"testing"

	"assay/registry/expect"
)

// ibanExamples proves ibanForms. It holds the examples of the IBAN registry, examples of banks for countries outside
// the registry, and for dependencies the example of the country whose form they use.
const ibanExamples = `
AD1200012030200359100100 AE070331234567890123456 AL47212110090000000235698741 AT611904300234573201
AZ21NABZ00000000137010001944 BA391290079401028494 BE68539007547034 BG80BNBG96611020345678 BH67BMAG00001299123456
BI4210000100010000332045181 BR1800360305000010009795493C1 BY13NBRB3600900000002Z00AB00 CH9300762011623852957
CR05015202001026284066 CY17002001280000001200527600 CZ6508000000192000145399 DE89370400440532013000
DJ2100010000000154000100186 DK5000400440116243 DO28BAGR00000001212453611324 EE382200221020145685
EG380019000500000000263180002 ES9121000418450200051332 FI2112345600000785 FK88SC123456789012 FO6264600001631634
FR1420041010050500013M02606 GB29NWBK60161331926819 GE29NB0000000101904917 GI75NWBK000000007099453 GL8964710001000206
GR1601101250000000012300695 GT82TRAJ01020000001210029690 HN88CABF00000000000250005469 HR1210010051863000160
HU42117730161111101800000000 IE29AIBK93115212345678 IL620108000000099999999 IQ98NBIQ850123456789012
IS140159260076545510730339 IT60X0542811101000000123456 JO94CBJO0010000000000131000302
KW81CBKU0000000000001234560101 KZ86125KZT5004100100 LB62099900000001001901229114
LC55HEMM000100010012001200023015 LI21088100002324013AA LT121000011101001000 LU280019400644750000
LV80BANK0000435195001 LY83002048000020100120361 MC5811222000010123456789030 MD24AG000225100013104168
ME25505000012345678951 MK07250120000058984 MN121234123456789123 MR1300020001010000123456753
MT84MALT011000012345MTLCAST001S MU17BOMM0101101030300200000MUR NI45BAPR00000013000003558124 NL91ABNA0417164300
NO9386011117947 OM810180000001299123456 PK36SCBL0000001123456702 PL61109010140000071219812874
PS92PALS000000000400123456702 PT50000201231234567890154 QA58DOHB00001234567890ABCDEFG RO49AAAA1B31007593840000
RS35260005601001611379 RU0304452522540817810538091310419 SA0380000000608010167519
SC18SSCB11010000000000001497USD SD2129010501234001 SE4550000000058398257466 SI56263300012039086
SK3112000000198742637541 SM86U0322509800000000270100 SO211000001001000100141 ST23000100010051845310146
SV62CENR00000000000000700025 TL380080012345678910157 TN5910006035183598478831 TR330006100519786457841326
UA213223130000026007233566001 VA59001123000012345678 VG96VPVG0000012345678901 XK051212012345678906
YE15CBYE0001018861234567891234
AX2112345600000785 BL6820041010050500013M02606 GF4120041010050500013M02606 GP1120041010050500013M02606
MF8420041010050500013M02606 MQ5120041010050500013M02606 NC8420041010050500013M02606 PF5720041010050500013M02606
PM3620041010050500013M02606 RE4220041010050500013M02606 TF2120041010050500013M02606 WF9120041010050500013M02606
YT3120041010050500013M02606
AO06004400006729503010102 BF42BF0840101300463574000390 BJ66BJ0610100100144390000769 CF4220001000010120069700160
CG3930013020003710721836132 CI93CI0080111301134291200589 CM2110002000300277976315008 CV64000500000020108215144
DZ580002100001113000000570 GA2140021010032001890020126 GQ7050002001003715228190196 GW04GW1430010181800637601
IR710570029971601460641001 KM4600005000010010904400137 MA64011519000001205000534921 MG4600005030071289421016045
ML13ML0160120102600100668497 MZ59000301080016367102371 NE58NE0380100100130305000268 SN08SN0100152000048500003035
TD8960002000010271091600153 TG53TG0090604310346500400070`

func TestRegistryExamples(t *testing.T) {
	t.Parallel()
	seen := map[string]bool{"GG": true, "IM": true, "JE": true} // their banks use GB
	for _, code := range strings.Fields(ibanExamples) {
		seen[code[:2]] = true
		e, err := Parse(IBAN, code, "")
		expect.Must(t, err == nil, "Parse(%s): %v", code, err)
		got := []string{e.Facts["iban.listed"], e.Facts["iban.structure"], e.Facts["iban.check"]}
		expect.NoDiff(t, code, []string{"yes", "ok", "ok"}, got)
		expect.That(t, e.Facts["iban.national"] != "wrong", "%s: the national check digits are wrong", code)
		joined := e.Facts["iban.bank"] + e.Facts["iban.branch"] + e.Facts["iban.account"]
		expect.That(t, strings.HasSuffix(code, joined), "%s does not end with its bank, branch and account %q", code,
			joined)
		if wrong, _ := Parse(IBAN, code[:len(code)-1], ""); wrong.Facts["iban.structure"] != "length" {
			t.Errorf("%s without its last character: structure %q, want length", code, wrong.Facts["iban.structure"])
		}
	}
	for country := range ibanForms {
		expect.That(t, seen[country], "%s has no example", country)
	}
}

func TestNationalCheckDetectsAWrongDigit(t *testing.T) {
	t.Parallel()
	var checked []string
	for _, code := range strings.Fields(ibanExamples) {
		country, bban := code[:2], code[4:]
		if _, known := nationalCheck(country, bban); !known {
			continue
		}
		checked = append(checked, country)
		// A position that the check covers. Albania's covers the bank.
		at := map[string]int{"IT": 8, "SM": 8}[country]
		changed := []byte(bban)
		changed[at] = '0' + (changed[at]-'0'+1)%10
		if country == "CZ" || country == "SK" {
			changed = []byte(bban)
			changed[len(bban)-1] = '0' + (changed[len(bban)-1]-'0'+1)%10
		}
		if country == "EE" {
			changed = []byte(bban)
			changed[5] = '0' + (changed[5]-'0'+1)%10
		}
		holds, _ := nationalCheck(country, string(changed))
		expect.That(t, !holds, "%s: %s passes like %s", country, changed, bban)
	}
	for _, country := range strings.Fields(
		"BE ES FR MC IT SM PT NO FI SI BA ME MK RS EE HR CZ SK PL HU TN TL AL XK MR") {
		expect.That(t, slices.Contains(checked, country), "%s: no example was checked", country)
	}
}

func TestNationalCheckEdges(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		country, bban string
		holds, known  bool
	}{
		"Belgian remainder 0 becomes 97": {"BE", "000000009797", true, true},
		"Belgian remainder 0 is not 00":  {"BE", "000000009700", false, true},
		"Belgian 98 is not 1":            {"BE", "000000009898", false, true},
		"Norwegian sum without the bank": {"NO", "86020017248", true, true},
		"Norwegian, neither sum":         {"NO", "86020012345", false, true},
		"Norwegian, wrong digit":         {"NO", "00001100000", false, true},
		"Dutch":                          {"NL", "ABNA0417164300", false, false},
		"Icelandic":                      {"IS", "0133260076548923501739", false, false},
	} {
		if holds, known := nationalCheck(c.country, c.bban); holds != c.holds || known != c.known {
			t.Errorf("%s: holds %v, known %v; want %v, %v", name, holds, known, c.holds, c.known)
		}
	}
}

func TestIBANFacts(t *testing.T) {
	t.Parallel()
	checkFacts(t, IBAN, map[string]parsed{
		"German, as the facts table shows": {"DE89 3704 0044 0532 0130 00", "DE89370400440532013000", Facts{
			"iban.country": "DE", "iban.listed": "yes", "iban.structure": "ok", "iban.check": "ok",
			"iban.check_digits": "89",
			"iban.bban":         "370400440532013000", "iban.bank": "37040044", "iban.account": "0532013000",
			"iban.sepa": "yes"}},
		"British with a branch": {"GB29NWBK60161331926819", "GB29NWBK60161331926819", Facts{
			"iban.bank": "NWBK", "iban.branch": "601613", "iban.account": "31926819"}},
		"Italian bank after the CIN": {"IT60X0542811101000000123456", "IT60X0542811101000000123456", Facts{
			"iban.bank": "05428", "iban.branch": "11101", "iban.account": "000000123456", "iban.national": "ok"}},
		"wrong check digits": {"DE88370400440532013000", "DE88370400440532013000", Facts{
			"iban.check": "wrong", "iban.structure": "ok"}},
		// 98 and 01 leave the same remainder, so the congruence alone would accept both.
		"check digits never issued": {"DE01500105170000000080", "DE01500105170000000080", Facts{"iban.check": "wrong"}},
		"wrong length": {"DE8937040044053201300", "DE8937040044053201300", Facts{
			"iban.structure": "length", "iban.bank": ""}},
		"letters for digits": {"DE8937040044053201300X", "DE8937040044053201300X", Facts{
			"iban.structure": "format", "iban.bank": ""}},
		"digits for a bank's letters": {"GB29NW1K60161331926819", "GB29NW1K60161331926819", Facts{
			"iban.structure": "format"}},
		"unlisted country": {"US64SVBKUS6S3300958879", "US64SVBKUS6S3300958879", Facts{
			"iban.listed": "no", "iban.structure": "", "iban.sepa": ""}},
		"national check wrong": {"BE41539007547035", "BE41539007547035", Facts{
			"iban.check": "ok", "iban.national": "wrong"}},
		"French Polynesia, no SEPA": {"PF5720041010050500013M02606", "PF5720041010050500013M02606", Facts{
			"iban.sepa": "no", "iban.national": "ok"}},
		"lower case": {"gb29nwbk60161331926819", "GB29NWBK60161331926819", Facts{"iban.check": "ok"}},
		"tabs, NBSP and hyphens": {"DE89\t3704\u00a00044-0532\u202f0130\u201000", "DE89370400440532013000", Facts{
			"iban.check": "ok"}},
		"prefix IBAN": {"IBAN: DE89 3704 0044 0532 0130 00", "DE89370400440532013000", Facts{"iban.check": "ok"}},
	})
}

func TestIBANRefused(t *testing.T) {
	t.Parallel()
	checkRefused(t, IBAN, map[string]refused{
		"no country":     {"1289370400440532013000", "", "does not start with"},
		"short":          {"DE89370", "", "shorter than 8"},
		"long":           {"DE89" + strings.Repeat("3", 31), "", "longer than 34"},
		"punctuation":    {"DE89.3704.0044.0532", "", "letters A-Z and digits"},
		"umlaut":         {"DE89 3704 Ü", "", "letters A-Z and digits"},
		"newline inside": {"DE8937040044\n0532013000", "", "control character U+000A"},
	})
}

func FuzzIBAN(f *testing.F) {
	for _, code := range strings.Fields(ibanExamples) {
		f.Add(code)
	}
	f.Add("IBANIBAN12345678")
	f.Add("de89 3704-0044\t0532 0130 00")
	f.Fuzz(func(t *testing.T, raw string) { checkParse(t, IBAN, raw, "") })
}
