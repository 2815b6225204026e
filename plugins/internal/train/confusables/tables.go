package main

import (
	"bytes"
	"fmt"
	"go/format"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"golang.org/x/net/idna"
	"golang.org/x/text/unicode/norm"
)

// labels reads labels as package entity does.
var labelProfile = idna.New(idna.MapForLookup(), idna.Transitional(false), idna.CheckHyphens(false),
	idna.StrictDomainName(false))

// permitted says whether a label that was parsed may hold r: whether UTS 46 maps it to itself.
func isPermitted(r rune) bool {
	mapped, err := labelProfile.ToUnicode(string(r))
	return mapped == string(r) && (err == nil || unicode.Is(unicode.M, r)) // a mark may not come first, but may follow
}

// resembling are letters that pass for an ASCII one though Unicode does not call them confusable, each with that
// letter: small capitals, which are the skeletons of others, letters turned or with an end of their own, and letters
// that stand for the sound. By judgement, and by what reported names put in the place of letters.
const judgedLookalikes = "ʙbɢgʜhᴋkʟlᴍmɴnᴘpʀrᴛtʏyᴀaᴅdᴇeᴊjꜱs" + // small capitals: of в, н, к, м, т and the like
	"ßbзzиuєeґrгrпnцuъbьbбb" + // Cyrillic, and ß as the skeleton of the Greek β
	"κkτtχxηnεeωwμuζzδoπnĸk" + // Greek, and ĸ as the skeleton of к
	"րrտsդqեtկuղnբfփp" + // Armenian
	"ƅbꝇlꝲlƪlꞅrɛeɔcəeʃfɒaɐaɜeʌvʍmɹrʇtðdǝeŧtɨi"

// bars are characters that read as a hyphen, or as nothing, between Latin letters.
const hyphenBars = "ーㅡ·"

// likeness is what looking a character up in the table tells: letters that it passes for, "" where it leaves none, and
// how.
type likeness struct {
	letters string
	how     string // a mark of the table's
}

// likenessOf returns what r passes for, all in lower-case ASCII: its skeleton without marks.
func (d *unicodeData) likenessOf(r rune) (likeness, bool) {
	switch {
	case r == 'ß':
		return likeness{"ss", accented}, true // as IDNA 2003 maps it; what it looks like, the layer knows besides
	case strings.ContainsRune(hyphenBars, r):
		return likeness{"", hyphenLike}, true
	case unicode.In(r, unicode.Mn, unicode.Me, unicode.Cf):
		return likeness{"", combining}, isLatinMark(d.scripts[r])
	}
	letters, how := "", identical
	for _, c := range norm.NFD.String(string(r)) {
		more, manner, ok := d.asciiSkeleton(c)
		if !ok {
			return likeness{}, false
		}
		letters += more
		if manner == similar || how == identical {
			how = manner
		}
	}
	if like := judgedLetter(r); like != "" && !isLetters(letters) {
		letters, how = like, similar // a letter rather than a digit
	}
	letters = strings.ReplaceAll(letters, "rn", "m") // the skeleton of m
	switch {
	case isLetters(letters) && len(letters) <= 2, len(letters) == 1 && letters[0] >= '0' && letters[0] <= '9':
	case how == identical && (letters == "/" || letters == "."):
		return likeness{"", dotLike}, true
	case how == identical && letters != "" && strings.Trim(letters, "-'") == "":
		return likeness{"", hyphenLike}, true
	default:
		return likeness{}, false
	}
	if !d.allowed[r] && slices.Equal(d.scripts[r], []string{"Latin"}) {
		how = rare
	}
	return likeness{letters, how}, true
}

// plain returns the ASCII of the skeleton of c, which is no longer to be taken apart, in lower case and without marks.
func (d *unicodeData) asciiSkeleton(c rune) (ascii, how string, ok bool) {
	if unicode.In(c, unicode.Mn, unicode.Me) {
		return "", accented, true
	}
	skeleton, found := d.prototypes[c]
	if !found {
		skeleton = string(c)
	}
	for _, s := range norm.NFD.String(skeleton) {
		like := judgedLetter(s)
		switch {
		case unicode.In(s, unicode.Mn, unicode.Me):
			if how == identical {
				how = accented
			}
		case s < 0x80:
			ascii += strings.ToLower(string(s))
		case like != "":
			ascii, how = ascii+like, similar
		default:
			like = judgedLetter(c)
			return like, similar, like != ""
		}
	}
	return ascii, how, true
}

// resembles returns the letter behind c in resembling, "" when it is not there.
func judgedLetter(c rune) string {
	if at := strings.IndexRune(judgedLookalikes, c); at >= 0 && c >= 0x80 {
		at += len(string(c))
		return judgedLookalikes[at : at+1]
	}
	return ""
}

// latinMark says whether a mark belongs to no script, or to Latin's: to others' letters, marks are no ornament.
func isLatinMark(scripts []string) bool {
	return len(scripts) == 0 || slices.Contains(scripts, "Latin") || slices.Contains(scripts, "Latn")
}

// The marks that the table puts behind what a character passes for.
const (
	identical  = ""
	accented   = "'"
	similar    = "~"
	rare       = "!"
	hyphenLike = "-" // reads as a hyphen or an apostrophe
	dotLike    = "/" // reads as a dot or a slash, which end a label
	combining  = "^"
)

func isLetters(s string) bool { return s != "" && strings.Trim(s, "abcdefghijklmnopqrstuvwxyz") == "" }

// recommended are the scripts that get a bit of their own, by short and long names: those of UAX 31, table 5, and some
// more whose letters look like Latin ones. All others share the last bit.
var recommendedScripts = strings.Fields("Arab Arabic Armn Armenian Beng Bengali Bopo Bopomofo Cyrl Cyrillic Deva Devanagari " +
	"Ethi Ethiopic Geor Georgian Grek Greek Gujr Gujarati Guru Gurmukhi Hang Hangul Hani Han Hebr Hebrew Hira Hiragana " +
	"Kana Katakana Khmr Khmer Knda Kannada Laoo Lao Latn Latin Mlym Malayalam Mymr Myanmar Orya Oriya Sinh Sinhala " +
	"Taml Tamil Telu Telugu Thaa Thaana Thai Thai Tibt Tibetan " +
	"Cher Cherokee Copt Coptic Dsrt Deseret Lisu Lisu Tfng Tifinagh")

// names lists the scripts with a bit of their own in the order of the bits; behind them come the shared bit and the
// three of writing systems that join scripts.
func bitNames() []string {
	var list []string
	for i := 1; i < len(recommendedScripts); i += 2 {
		list = append(list, recommendedScripts[i])
	}
	return append(list, "another script", "Hanb", "Japanese", "Korean")
}

// augmented returns the bits of a character's scripts, with those of the writing systems that they are part of (UTS 39,
// section 5.1); 0 for a character of any script.
func (d *unicodeData) augmentedScripts(r rune) uint64 {
	list := bitNames()
	bit := func(name string) uint64 { return 1 << slices.Index(list, name) }
	var set uint64
	if len(d.scripts[r]) > maxSharingScripts {
		return 0
	}
	for _, s := range d.scripts[r] {
		at := slices.Index(recommendedScripts, s)
		if at < 0 {
			set |= bit("another script")
			continue
		}
		name := recommendedScripts[at|1]
		set |= bit(name)
		switch name {
		case "Han":
			set |= bit("Hanb") | bit("Japanese") | bit("Korean")
		case "Hiragana", "Katakana":
			set |= bit("Japanese")
		case "Hangul":
			set |= bit("Korean")
		case "Bopomofo":
			set |= bit("Hanb")
		}
	}
	return set
}

// manyScripts is how many scripts share a character, such as a sign of Vedic chant, before it counts as one of any
// script.
const maxSharingScripts = 5

// source returns the tables as Go source.
func (d *unicodeData) goSource() ([]byte, error) {
	var lookalikes, ranges []string
	var sets []uint64
	last := -1
	for r := rune(0x80); r <= unicode.MaxRune; r++ {
		if !isPermitted(r) {
			continue
		}
		if like, ok := d.likenessOf(r); ok {
			lookalikes = append(lookalikes, string(r)+like.letters+like.how)
		}
		set := d.augmentedScripts(r)
		at := slices.Index(sets, set)
		if at < 0 {
			at, sets = len(sets), append(sets, set)
		}
		if at != last { // a range runs to the next one: what lies between is in no label
			ranges = append(ranges, string(r)+string(rune('!'+at)))
			last = at
		}
	}
	if len(sets) > '~'-'!' {
		return nil, fmt.Errorf("writing the tables: %d sets of scripts are more than a byte of ASCII tells", len(sets))
	}
	var b bytes.Buffer
	fmt.Fprintf(&b, header, d.version)
	fmt.Fprintf(&b, textTable, aboutLookalikes, "lookalikes", quoteRecords(lookalikes))
	fmt.Fprintf(&b, textTable, aboutRanges, "scriptRanges", quoteRecords(ranges))
	fmt.Fprintf(&b, "\n%s\nvar scriptSets = [...]scriptSet{\n", aboutSets)
	for _, set := range sets {
		fmt.Fprintf(&b, "%#x,\n", set)
	}
	b.WriteString("}\n\n// scriptNames names the bits of a scriptSet.\nvar scriptNames = [...]string{\n")
	for _, name := range bitNames() {
		fmt.Fprintf(&b, "%q,\n", name)
	}
	b.WriteString("}\n\n// The bits of scripts that rules name.\nconst (\n")
	for _, name := range lookalikeScripts {
		fmt.Fprintf(&b, "script%s scriptSet = %#x\n", name, 1<<slices.Index(bitNames(), name))
	}
	b.WriteString(")\n")
	source, err := format.Source(b.Bytes())
	if err != nil {
		return nil, fmt.Errorf("writing the tables: %w", err)
	}
	return source, nil
}

const header = `// Code generated by plugins/internal/train/confusables; DO NOT EDIT.
//
// From the data files of Unicode %s. Copyright © 1991-2026 Unicode, Inc. Unicode-3.0 licence: see NOTICE.

package main
`

const (
	textTable       = "\n%s\nconst %s = \"\" +\n%s\n"
	aboutLookalikes = `// lookalikes lists every character that a label may hold and that passes for ASCII, in their order: the character, the
// letters or the digit that it passes for, and a mark of how (see marked).`
	aboutRanges = `// scriptRanges lists where the set of scripts changes from one character to the next, in their order: the character and
// the place of its set in scriptSets, from '!' on.`
	aboutSets = `// scriptSets holds the sets of scripts, one bit for each of scriptNames; 0 for characters of any script.`
)

// shapely are the scripts with many letters that look like those of another one of them.
var lookalikeScripts = [...]string{"Latin", "Cyrillic", "Greek", "Armenian", "Cherokee", "Coptic", "Deseret", "Lisu", "Tifinagh"}

// quoted writes records as lines of one Go string, in ASCII: letters of scripts that run from the right would turn
// lines around.
func quoteRecords(records []string) string {
	var lines []string
	line := ""
	for _, r := range records {
		q := strconv.QuoteToASCII(r)
		q = q[1 : len(q)-1]
		if len(line)+len(q) > 118 {
			lines, line = append(lines, `"`+line+`"`), ""
		}
		line += q
	}
	return strings.Join(append(lines, `"`+line+`"`), " +\n")
}
