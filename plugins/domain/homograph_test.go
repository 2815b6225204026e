package main

import (
	"strings"
	"testing"
	"unicode/utf8"

	"assay/host/entity"
	"assay/registry/expect"
	"assay/registry/layertest"
	"assay/sdk"
)

// TestHomographs checks the signals for names that imitate others with confusable characters.
func TestHomographs(t *testing.T) {
	t.Parallel()
	const (
		imitated  = "domain:homograph:brand"
		mixed     = "domain:homograph:mixed_scripts"
		whole     = "domain:homograph:whole_script"
		rare      = "domain:homograph:rare_letter"
		lookalike = "domain:brand:lookalike"
	)
	for want, names := range map[string]string{
		// An A-label, dots below and other accents, a dotless i, a Cyrillic letter instead of the owner's é.
		imitated: "xn--80ak6aa92e.com coịnbạse.com çoinbåse.com ḷedger.com binȧnce.com lınkedin.com " +
			"sociѐtegenerale.com metamask.xn--pypal-4ve.com",
		// Cyrillic, Greek, Lisu and Armenian letters.
		imitated + " " + mixed: "раураl.com gοοgle.com coinbаse-login.com ꓖoogle.com ՏtеаmPowered.com",
		// A Japanese vowel mark as hyphen, a letter that looks like no ASCII letter, three scripts, and a character of
		// any script.
		mixed: "paypalーlogin.com login.gаrden.example.com gаrdening.weebly.com gаrжen.com gаrden例.com " +
			"blumen⁄wiese.example.com",
		whole:     "ѕсоре.net",
		rare:      "ꜱcoreboard.com",
		lookalike: "rnicrosoft.com arnazon.com discorcl.com paypaI.com 1inkedin.com", // the capital I is parsed
	} {
		for name := range strings.FieldsSeq(names) {
			result, got := sdk.Run(Score, facts(t, entity.Domain, name)), map[string]bool{}
			for _, s := range result.Signals {
				got[s.Code] = s.Points > 0
			}
			for code := range strings.FieldsSeq(want) {
				expect.That(t, got[code], "%s: no %s in %+v", name, code, result.Signals)
			}
		}
	}
}

// TestInternationalNamesScoreZero checks ordinary names in many scripts, including legitimate mixtures.
func TestInternationalNamesScoreZero(t *testing.T) {
	t.Parallel()
	for _, name := range []string{
		"ελλάδα.gr", "αθήνα.com", "οδηγός-υγείας.eu", // Greek
		"москва.рф", "сахар.ru", "новости.com", "київ.укр", "мʼята.укр", "софия.bg", // Cyrillic
		"例子.中国", "百度.com", "中文网址.公司", "〇〇商店.jp", // Chinese
		"アサイabc.jp", "東京タワー.jp", "コーヒーshop.com", "はじめよう.みんな", "tokyoタワー.jp", "αリポ酸.jp", // Japanese, mixed
		"한국.com", "서울abc.kr", // Korean
		"مثال.com", "موقع.وزارة-الاتصالات.مصر", "تهران.ایران", // Arabic, Persian
		"ישראל.קום", "צה״ל.com", // Hebrew
		"ไทย.com", "ฟู่หลง168.com", // Thai
		"भारत.com", "বাংলা.ভারত", "தமிழ்.com", // Indian scripts
		"հայաստան.հայ", "საქართველო.გე", // Armenian, Georgian
		"müller.de", "straße.de", "weißbierbrauerei.de", "bücher-groß.at", // German
		"đặng-văn-hùng.vn", "tiếngviệt.com", "phởngon.net", // Vietnamese
		"işıklı.com.tr", "ısıtma.com", // Turkish
		"łódź.pl", "kraków-żużel.pl", "čeština.cz", "şcoală.ro", "ñandú.cl",
		"façade.fr", "mørtelfuger.dk", "þór.is", "col·lecció.cat",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, s := range sdk.Run(Score, facts(t, entity.Domain, name)).Signals {
				expect.That(t, s.Points <= 0, "%+v", s)
			}
		})
	}
}

// TestLabelledHomographs counts false positives among the legitimate internationalised names of the labelled data.
func TestLabelledHomographs(t *testing.T) {
	t.Parallel()
	type row struct {
		Value string
		Label int
		IDN   bool
	}
	names, alarms := 0, 0
	layertest.Rows(t, "train_domains.jsonl", func(row row) {
		if row.Label != 0 || !row.IDN {
			return
		}
		names++
		for _, s := range sdk.Run(Score, facts(t, entity.Domain, row.Value)).Signals {
			if strings.HasPrefix(s.Code, "domain:homograph:") {
				alarms++
				t.Logf("%s: %+v", row.Value, s)
			}
		}
	})
	expect.That(t, names >= 100 && alarms*100 <= names,
		"%d of %d legitimate names have homograph signals, want at most 1%% of at least 100", alarms, names)
}

func TestSkeleton(t *testing.T) {
	t.Parallel()
	for label, want := range map[string]string{
		"g00g1e": "google", "rnicrosoft": "mlcrosoft", "pay-pal": "paypal", "zürîch": "zurlch", "æther": "aether",
		"раураl": "paypal", "gοοgle": "google", "a例b": "a\x00b", "a\xffb": "a\x00b",
	} {
		expect.Equal(t, "the skeleton of "+label, skeletonString(label), want)
	}
	expect.Equal(t, "letters of ligatures", len(skeletonString(strings.Repeat("æ", 4*maxLetters))), 2*maxLetters)
}

// skeletonString returns the skeleton of label.
func skeletonString(label string) string {
	var s skeleton
	readSkeleton(label, &s)
	return string(s.text[:s.n])
}

// The tables must be sorted for findRecord, and findRecord must return each record.
func TestUnicodeTables(t *testing.T) {
	t.Parallel()
	for name, table := range map[string]string{"lookalikes": confusables, "scriptRanges": scriptRanges} {
		last := rune(0)
		for rest := table; rest != ""; {
			r, size := utf8.DecodeRuneInString(rest)
			end := size
			for end < len(rest) && rest[end] < utf8.RuneSelf {
				end++
			}
			expect.Must(t, r > last && r >= utf8.RuneSelf && end != size, "%s: %q is out of order or empty", name,
				rest[:end])
			letter, entry := findRecord(table, r)
			expect.Must(t, letter == r && entry == rest[size:end], "%s: looking up %q returns %q, %q", name, rest[:end],
				letter, entry)
			expect.Must(t, name != "scriptRanges" || int(entry[0]-'!') < len(scriptSets), "%s: %q names no set", name,
				rest[:end])
			last, rest = r, rest[end:]
		}
	}
}

func TestAsASCII(t *testing.T) {
	t.Parallel()
	for r, want := range map[rune]struct {
		letters string
		how     likeness
	}{
		'а': {"a", identical}, 'ο': {"o", identical}, 'ı': {"i", identical}, 'ӏ': {"l", identical},
		'œ': {"oe", identical},
		'é': {"e", accented}, 'ø': {"o", accented}, 'ł': {"l", accented}, 'ß': {"ss", accented}, 'ḿ': {"m", accented},
		'в': {"b", similar}, 'н': {"h", similar}, 'ω': {"w", similar},
		'ɡ': {"g", rare}, 'ꜱ': {"s", rare}, 'ʀ': {"r", rare},
		'ʼ': {"", hyphenLike}, 'ー': {"", hyphenLike}, 'ノ': {"", dotLike}, '\u0323': {"", combining},
		'ж': {"", unlike}, '中': {"", unlike}, '\U0010ffff': {"", unlike},
	} {
		if letters, how := asASCII(r); letters != want.letters || how != want.how {
			t.Errorf("asASCII(%q) = %q, %d, want %q, %d", r, letters, how, want.letters, want.how)
		}
	}
}
