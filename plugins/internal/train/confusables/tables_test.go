package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"assay/registry/expect"
)

// Excerpts of the Unicode data files.
const (
	someConfusables = "\ufeff# confusables.txt\n# Version: 18.0.0\n\n" +
		"0430 ;\t0061 ;\tMA\t# ( а → a )\n0455 ;\t0073 ;\tMA\n2170 ;\t0069 ;\tMA\n" +
		"0153 ;\t006F 0065 ;\tMA\n0271 ;\t0072 006E 0326 ;\tMA\n" +
		"0432 ;\t0299 ;\tMA\n0251 ;\t0061 ;\tMA\n30CE ;\t002F ;\tMA\n02B9 ;\t0027 ;\tMA\n"
	someStatus  = "00E0..017F ; Allowed # a\n0430..0455 ; Allowed\n"
	someScripts = "0061..007A ; Latin # a\n00E0..024F ; Latin\n0250..02AF ; Latin\n0400..04FF ; Cyrillic\n" +
		"30A1..30FA ; Katakana\n" +
		"0300..036F ; Inherited\n30FC ; Common\n10900..1091B ; Phoenician\n"
	someExtensions = "30FC ; Hira Kana # x\n0363..036F ; Latn\n"
)

func TestLikeness(t *testing.T) {
	t.Parallel()
	d := expect.Value(readUnicode(someConfusables, someStatus, someScripts, someExtensions))(t)
	d.allowed['ɱ'] = true
	for r, want := range map[rune]likeness{
		'а': {"a", identical}, 'œ': {"oe", identical}, // a confusable and a ligature
		'é': {"e", accented}, 'ӓ': {"a", accented}, // decomposed
		'ɱ': {"m", accented},                                      // the skeleton rn is m
		'в': {"b", similar}, 'ɑ': {"a", rare}, 'ノ': {"", dotLike}, // a small capital, a rare letter, a slash
		'ʹ': {"", hyphenLike}, 'ー': {"", hyphenLike}, '\u0323': {"", combining}, // an apostrophe, a long vowel mark
		'ж': {},
	} {
		if got, ok := d.likenessOf(r); got != want || ok != (want != likeness{}) {
			t.Errorf("likenessOf(%q) = %+v, %v, want %+v", r, got, ok, want)
		}
	}
}

func TestAugmentedScripts(t *testing.T) {
	t.Parallel()
	d := expect.Value(readUnicode(someConfusables, someStatus, someScripts, someExtensions))(t)
	for r, want := range map[rune]string{
		'é': "Latin", 'ж': "Cyrillic", 'ノ': "Katakana Japanese", 'ー': "Hiragana Katakana Japanese",
		'\U00010900': "another script", '\u0301': "", '\u0363': "Latin",
	} {
		var got []string
		for i, name := range bitNames() {
			if d.augmentedScripts(r)&(1<<i) != 0 {
				got = append(got, name)
			}
		}
		expect.That(t, strings.Join(got, " ") == want, "%U has the scripts %q, want %q", r, got, want)
	}
}

func TestBadFiles(t *testing.T) {
	t.Parallel()
	for want, bad := range map[string]struct {
		file int
		text string
	}{
		"there is no version line":                          {0, "0430 ; 0061 ; MA\n"},
		`"xyz" is not a code point`:                         {0, someConfusables + "xyz ; 0061 ; MA\n"},
		`"00zz" is not a code point`:                        {0, someConfusables + "0431 ; 00zz ; MA\n"},
		"IdentifierStatus.txt: line 1 has 1 fields, want 2": {1, "0430\n"},
		"Scripts.txt: there is no data":                     {2, "# only this\n"},
		`"zz" is not a code point`:                          {3, "0041..zz ; Latn\n"},
	} {
		files := [...]string{someConfusables, someStatus, someScripts, someExtensions}
		files[bad.file] = bad.text
		_, err := readUnicode(files[0], files[1], files[2], files[3])
		expect.ErrorText(t, bad.text, err, want)
	}
}

func TestRun(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(folder, name)
		expect.NoError(t, os.WriteFile(path, []byte(text), 0o600))
		return path
	}
	args := []string{"-confusables", write("c", someConfusables), "-status", write("i", someStatus),
		"-scripts", write("s", someScripts), "-extensions", write("e", someExtensions)}
	var written [2][]byte
	for i := range written {
		out := filepath.Join(folder, "out.go")
		expect.NoError(t, run(append(args, "-out", out)))
		written[i] = expect.Value(os.ReadFile(out))(t)
	}
	expect.That(t, bytes.Equal(written[0], written[1]), "the same files produce different tables")
	for _, want := range []string{"DO NOT EDIT", "Unicode 18.0.0", `\u0430a`, "scriptCyrillic", `"Phoenician"`} {
		found := bytes.Contains(written[0], []byte(want))
		expect.That(t, found != (want == `"Phoenician"`), "%s is in the output: %v", want, found)
	}
	expect.Failure(t, run([]string{"-confusables", filepath.Join(folder, "none")}), "no error for a missing file")
}
