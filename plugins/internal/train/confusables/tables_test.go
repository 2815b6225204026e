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
	tests := map[string]struct {
		r    rune
		want likeness
		ok   bool
	}{
		"confusable":       {'а', likeness{"a", identical}, true},
		"ligature":         {'œ', likeness{"oe", identical}, true},
		"decomposed":       {'é', likeness{"e", accented}, true},
		"Cyrillic accent":  {'ӓ', likeness{"a", accented}, true},
		"skeleton rn is m": {'ɱ', likeness{"m", accented}, true}, // allowed is set below
		"small capital":    {'в', likeness{"b", similar}, true},
		"rare":             {'ɑ', likeness{"a", rare}, true},
		"slash":            {'ノ', likeness{"", dotLike}, true},
		"apostrophe":       {'ʹ', likeness{"", hyphenLike}, true},
		"long vowel mark":  {'ー', likeness{"", hyphenLike}, true},
		"combining mark":   {'\u0323', likeness{"", combining}, true},
		"no lookalike":     {'ж', likeness{}, false},
	}
	d.allowed['ɱ'] = true
	for name, tt := range tests {
		if got, ok := d.likenessOf(tt.r); got != tt.want || ok != tt.ok {
			t.Errorf("%s: likenessOf(%q) = %+v, %v, want %+v, %v", name, tt.r, got, ok, tt.want, tt.ok)
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
	for name, tt := range map[string]struct{ confusables, status, scripts, extensions, want string }{
		"no version": {"0430 ; 0061 ; MA\n", someStatus, someScripts, someExtensions, "there is no version line"},
		"no code point": {someConfusables + "xyz ; 0061 ; MA\n", someStatus, someScripts, someExtensions,
			`"xyz" is not a code point`},
		"bad skeleton": {someConfusables + "0431 ; 00zz ; MA\n", someStatus, someScripts, someExtensions,
			`"00zz" is not a code point`},
		"a field short": {someConfusables, "0430\n", someScripts, someExtensions,
			"IdentifierStatus.txt: line 1 has 1 fields, want 2"},
		"nothing inside": {someConfusables, someStatus, "# only this\n", someExtensions,
			"Scripts.txt: there is no data"},
		"broken range": {someConfusables, someStatus, someScripts, "0041..zz ; Latn\n", `"zz" is not a code point`},
	} {
		_, err := readUnicode(tt.confusables, tt.status, tt.scripts, tt.extensions)
		expect.ErrorText(t, name, err, tt.want)
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
