package main

import (
	"bufio"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf8"

	"assay/host/entity"
	"assay/sdk"
)

// TestHomographs holds the layer to names forged with letters that look alike: what it must see in each.
func TestHomographs(t *testing.T) {
	t.Parallel()
	const (
		forgery = "domain:homograph:brand"
		mixture = "domain:homograph:mixed_scripts"
		whole   = "domain:homograph:whole_script"
		rarity  = "domain:homograph:rare_letter"
		alike   = "domain:brand:lookalike"
	)
	for name, want := range map[string]string{
		"аррӏе.com":                  forgery, // Cyrillic throughout, as registered in 2017
		"xn--80ak6aa92e.com":         forgery, // the same
		"pаypal.com":                 forgery + " " + mixture,
		"раураl.com":                 forgery + " " + mixture,
		"gοοgle.com":                 forgery + " " + mixture, // Greek
		"coinbаse-login.com":         forgery + " " + mixture,
		"coịnbạse.com":               forgery, // dots below
		"çoinbåse.com":               forgery,
		"ḷedger.com":                 forgery,
		"binȧnce.com":                forgery,
		"lınkedin.com":               forgery, // dotless i
		"coinßase.com":               forgery,
		"ꓖoogle.com":                 forgery + " " + mixture, // Lisu
		"ՏtеаmPowered.com":           forgery + " " + mixture, // Armenian, Cyrillic
		"paypalーlogin.com":           mixture,                 // a Japanese mark for a hyphen
		"blumenノwiese.com":           mixture,                 // a Japanese letter for a slash
		"gаrdening.com":              mixture,
		"gօlfclub.com":               mixture,
		"login.gаrden.example.com":   mixture,
		"gаrжen.com":                 mixture, // one letter is nobody's double
		"gаrden例.com":                mixture, // three scripts
		"blumen⁄wiese.example.com":   mixture, // a sign of any script
		"sociѐtegenerale.com":        forgery, // Cyrillic, and not the é of the owner
		"осехур.com":                 whole,
		"ѕсоре.net":                  whole,
		"ɡardeninɡ.com":              rarity,
		"ꜱcoreboard.com":             rarity,
		"rnicrosoft.com":             alike,
		"arnazon.com":                alike,
		"discorcl.com":               alike,
		"vvhatsapp.com":              alike,
		"paypaI.com":                 alike, // parsed to lower case: an i is left
		"paypa1.com":                 alike,
		"1inkedin.com":               alike,
		"metamask.xn--pypal-4ve.com": forgery,
		"gаrdening.weebly.com":       mixture,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			result := sdk.Run(Score, facts(t, entity.Domain, name))
			got := map[string]bool{}
			for _, s := range result.Signals {
				got[s.Code] = s.Points > 0
			}
			for code := range strings.FieldsSeq(want) {
				if !got[code] {
					t.Errorf("no %s in %+v", code, result.Signals)
				}
			}
		})
	}
}

// TestForeignNamesAreSpared holds the layer to names that are at home in their scripts, and to honest mixtures.
func TestForeignNamesAreSpared(t *testing.T) {
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
				if s.Points > 0 {
					t.Errorf("%+v", s)
				}
			}
		})
	}
}

// TestLabelled counts false alarms among the honest internationalised names of the labelled data.
func TestLabelledHomographs(t *testing.T) {
	t.Parallel()
	folder := os.Getenv("ASSAY_DATA")
	if folder == "" {
		t.Skip("ASSAY_DATA names no folder with labelled lines")
	}
	file, err := os.Open(filepath.Join(folder, "train_domains.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	names, alarms := 0, 0
	for lines := bufio.NewScanner(file); lines.Scan(); {
		var row struct {
			Value string
			Label int
			IDN   bool
		}
		if err := json.Unmarshal(lines.Bytes(), &row); err != nil {
			t.Fatal(err)
		}
		if row.Label != 0 || !row.IDN {
			continue
		}
		names++
		for _, s := range sdk.Run(Score, facts(t, entity.Domain, row.Value)).Signals {
			if strings.HasPrefix(s.Code, "domain:homograph:") {
				alarms++
				t.Logf("%s: %+v", row.Value, s)
			}
		}
	}
	if names < 100 || alarms*100 > names {
		t.Errorf("%d of %d honest names are taken for homographs, want 1%% at most of 100 or more", alarms, names)
	}
}

// The tables must be in the order that record searches, and each entry one that reads understands.
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
			if r <= last || r < utf8.RuneSelf || end == size {
				t.Fatalf("%s: %q is out of order or empty", name, rest[:end])
			}
			letter, entry := findRecord(table, r)
			if letter != r || entry != rest[size:end] {
				t.Fatalf("%s: looking %q up finds %q, %q", name, rest[:end], letter, entry)
			}
			if name == "scriptRanges" && int(entry[0]-'!') >= len(scriptSets) {
				t.Fatalf("%s: %q names no set", name, rest[:end])
			}
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
		'а': {"a", identical}, 'ο': {"o", identical}, 'ı': {"i", identical}, 'ӏ': {"l", identical}, 'œ': {"oe", identical},
		'é': {"e", accented}, 'ø': {"o", accented}, 'ł': {"l", accented}, 'ß': {"ss", accented}, 'ḿ': {"m", accented},
		'в': {"b", similar}, 'н': {"h", similar}, 'ω': {"w", similar},
		'ɡ': {"g", rare}, 'ꜱ': {"s", rare}, 'ʀ': {"r", rare},
		'ʼ': {"", hyphenLike}, 'ー': {"", hyphenLike}, 'ノ': {"", dotLike}, '\u0323': {"", combining},
		'ж': {"", unlike}, '中': {"", unlike}, '\U0010ffff': {"", unlike},
	} {
		if letters, how := asASCII(r); letters != want.letters || how != want.how {
			t.Errorf("reads(%q) = %q, %d, want %q, %d", r, letters, how, want.letters, want.how)
		}
	}
}
