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

	"assay/registry/fault"
)

// labelProfile parses labels like package entity.
var labelProfile = idna.New(idna.MapForLookup(), idna.Transitional(false), idna.CheckHyphens(false),
	idna.StrictDomainName(false))

// isPermitted reports whether a parsed label may contain r, that is, whether UTS 46 maps r to itself.
func isPermitted(r rune) bool {
	mapped, err := labelProfile.ToUnicode(string(r))
	return mapped == string(r) && (err == nil || unicode.Is(unicode.M, r)) // a combining mark alone is an error
}

// judgedLookalikes are pairs of a letter and the ASCII letter that it looks like although confusables.txt does not list
// the pair. They are chosen by judgement and from reported names: small capitals, which are the skeletons of other
// letters, turned letters, letters with extra strokes, and letters with the same sound.
const judgedLookalikes = "" +
	"ʙbɢgʜhᴋkʟlᴍmɴnᴘpʀrᴛtʏyᴀaᴅdᴇeᴊjꜱs" + // small capitals, the skeletons of в, н, к, м, т and others
	"ßbзzиuєeґrгrпnцuъbьbбb" + // Cyrillic, and ß, the skeleton of the Greek β
	"κkτtχxηnεeωwμuζzδoπnĸk" + // Greek, and ĸ, the skeleton of к
	"րrտsդqեtկuղnբfփp" + // Armenian
	"ƅbꝇlꝲlƪlꞅrɛeɔcəeʃfɒaɐaɜeʌvʍmɹrʇtðdǝeŧtɨi"

// hyphenBars look like a hyphen, or like nothing, between Latin letters.
const hyphenBars = "ーㅡ·"

// likeness is an entry of the table of confusables.
type likeness struct {
	letters string // the lower-case ASCII letters or the digit that the character looks like; may be ""
	how     string // one of the constants below
}

// likenessOf returns the entry of r, from its skeleton without combining marks. ok is false if r does not look like
// ASCII.
func (d *unicodeData) likenessOf(r rune) (likeness, bool) {
	switch {
	case r == 'ß':
		return likeness{"ss", accented}, true // as IDNA 2003 maps it; the layer also reads it as b
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
		letters, how = like, similar // prefer a letter to a digit
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

// asciiSkeleton returns the skeleton of c in lower-case ASCII, without combining marks. c must be in normalization form
// D.
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

// judgedLetter returns the letter for c in judgedLookalikes, or "".
func judgedLetter(c rune) string {
	if at := strings.IndexRune(judgedLookalikes, c); at >= 0 && c >= 0x80 {
		at += len(string(c))
		return judgedLookalikes[at : at+1]
	}
	return ""
}

// isLatinMark reports whether a combining mark with these scripts belongs to Latin or to no script in particular. In
// other scripts, marks change the letter.
func isLatinMark(scripts []string) bool {
	return len(scripts) == 0 || slices.Contains(scripts, "Latin") || slices.Contains(scripts, "Latn")
}

// The ways in which characters look like ASCII, as the table marks them after the letters. The domain layer's type
// likeness explains them.
const (
	identical  = ""
	accented   = "'"
	similar    = "~"
	rare       = "!"
	hyphenLike = "-"
	dotLike    = "/"
	combining  = "^"
)

func isLetters(s string) bool { return s != "" && strings.Trim(s, "abcdefghijklmnopqrstuvwxyz") == "" }

// recommendedScripts are the short and long names of the scripts with their own bit: those of UAX 31, table 5, followed
// by others with letters that look Latin. All remaining scripts share one bit.
var recommendedScripts = strings.Fields("" +
	"Arab Arabic Armn Armenian Beng Bengali Bopo Bopomofo Cyrl Cyrillic Deva Devanagari Ethi Ethiopic Geor Georgian " +
	"Grek Greek Gujr Gujarati Guru Gurmukhi Hang Hangul Hani Han Hebr Hebrew Hira Hiragana " +
	"Kana Katakana Khmr Khmer Knda Kannada Laoo Lao Latn Latin Mlym Malayalam Mymr Myanmar Orya Oriya Sinh Sinhala " +
	"Taml Tamil Telu Telugu Thaa Thaana Thai Thai Tibt Tibetan " +
	"Cher Cherokee Copt Coptic Dsrt Deseret Lisu Lisu Tfng Tifinagh")

// bitNames returns the names of the bits: the scripts with their own bit, the shared bit, and the three writing systems
// that combine scripts.
func bitNames() []string {
	var list []string
	for i := 1; i < len(recommendedScripts); i += 2 {
		list = append(list, recommendedScripts[i])
	}
	return append(list, "another script", "Hanb", "Japanese", "Korean")
}

// augmentedScripts returns the bits of a character's scripts and of the writing systems that include them (UTS 39,
// section 5.1), or 0 for a character of any script.
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

// maxSharingScripts is the largest number of scripts that share a character. If more do, as with Vedic signs, it counts
// as a character of any script.
const maxSharingScripts = 5

// goSource returns the tables as Go source.
func (d *unicodeData) goSource() ([]byte, error) {
	var confusables, ranges []string
	var sets []uint64
	last := -1
	for r := rune(0x80); r <= unicode.MaxRune; r++ {
		if !isPermitted(r) {
			continue
		}
		if like, ok := d.likenessOf(r); ok {
			confusables = append(confusables, string(r)+like.letters+like.how)
		}
		set := d.augmentedScripts(r)
		at := slices.Index(sets, set)
		if at < 0 {
			at, sets = len(sets), append(sets, set)
		}
		if at != last { // a range extends to the next one, over characters that labels cannot contain
			ranges = append(ranges, string(r)+string(rune('!'+at)))
			last = at
		}
	}
	if len(sets) > '~'-'!' {
		return nil, fmt.Errorf("writing the tables: %d sets of scripts do not fit into one ASCII byte", len(sets))
	}
	var b bytes.Buffer
	fmt.Fprintf(&b, header, d.version)
	fmt.Fprintf(&b, textTable, aboutConfusables, "confusables", quoteRecords(confusables))
	fmt.Fprintf(&b, textTable, aboutRanges, "scriptRanges", quoteRecords(ranges))
	fmt.Fprintf(&b, "\n%s\nvar scriptSets = [...]scriptSet{\n", aboutSets)
	for _, set := range sets {
		fmt.Fprintf(&b, "%#x,\n", set)
	}
	b.WriteString("}\n\n// scriptNames are the names of the bits of a scriptSet.\nvar scriptNames = [...]string{\n")
	for _, name := range bitNames() {
		fmt.Fprintf(&b, "%q,\n", name)
	}
	b.WriteString("}\n\n// The bits of scripts that the rules name.\nconst (\n")
	for _, name := range lookalikeScripts {
		fmt.Fprintf(&b, "script%s scriptSet = %#x\n", name, 1<<slices.Index(bitNames(), name))
	}
	b.WriteString(")\n")
	source, err := format.Source(b.Bytes())
	return source, fault.Wrap(err, "writing the tables")
}

const header = `// Code generated by plugins/internal/train/confusables; DO NOT EDIT.
//
// From the data files of Unicode %s. Copyright © 1991-2026 Unicode, Inc. Unicode-3.0 licence: see NOTICE.

package main
`

const (
	textTable        = "\n%s\nconst %s = \"\" +\n%s\n"
	aboutConfusables = `// confusables has a record for every character of a label that looks like ASCII, in order: the
// character, the letters or digit that it looks like and, unless its likeness is identical, a byte for the likeness
// (see likenessOf).`
	aboutRanges = `// scriptRanges has a record for every character whose scripts differ from those of the character
// before, in order: the character and the index in scriptSets, counted from '!'.`
	aboutSets = `// scriptSets holds sets of the scripts in scriptNames, 0 for a character of any script.`
)

// lookalikeScripts share many letter shapes with each other.
var lookalikeScripts = [...]string{
	"Latin", "Cyrillic", "Greek", "Armenian", "Cherokee", "Coptic", "Deseret", "Lisu", "Tifinagh",
}

// quoteRecords returns records as lines of a Go string in ASCII, because characters of right-to-left scripts would
// reorder the lines in editors.
func quoteRecords(records []string) string {
	var lines []string
	line := ""
	for _, r := range records {
		q := strconv.QuoteToASCII(r)
		q = q[1 : len(q)-1]
		if len(line)+len(q) > 112 {
			lines, line = append(lines, `"`+line+`"`), ""
		}
		line += q
	}
	return strings.Join(append(lines, `"`+line+`"`), " +\n")
}
