package main

import "unicode/utf8"

// maxLetters bounds what is read of one label: RFC 1035 allows 63 octets, a U-label has fewer letters than its A-label.
const maxLetters = 64

// folded is a label as the eye reads it: look-alike letters and digits are one, hyphens are gone. Two labels that fold to
// the same bytes are easily taken for each other (the skeleton of Unicode TR39, coarser).
type folded struct {
	text  [maxLetters * 2]byte
	begin [maxLetters * 2]uint16 // text[i] was read from label[begin[i]:end[i]]
	end   [maxLetters * 2]uint16
	n     int
}

// unknown stands in a fold for a letter with no Latin look-alike; it equals no letter of a brand.
const unknown = 0

func fold(label string, f *folded) {
	f.n = 0
	count := 0
	for i := 0; i < len(label) && count < maxLetters; count++ {
		c := label[i]
		if c < utf8.RuneSelf {
			switch c = twins[c]; c {
			case hidden:
			case 'l', 'n', 'v':
				f.push(c, i, i+1)
			default:
				f.text[f.n], f.begin[f.n], f.end[f.n] = c, uint16(i), uint16(i+1)
				f.n++
			}
			i++
			continue
		}
		r, size := utf8.DecodeRuneInString(label[i:])
		first, second, _ := latin(r)
		f.push(twins[first], i, i+size)
		if second != 0 {
			f.push(twins[second], i, i+size)
		}
		i += size
	}
}

// push appends one letter, merged with the one before where the pair looks like a single letter.
func (f *folded) push(c byte, begin, end int) {
	if f.n > 0 && (c == 'n' || c == 'v' || c == 'l') {
		if merged := pair(f.text[f.n-1], c); merged != 0 && int(f.end[f.n-1]) == begin {
			f.text[f.n-1] = merged
			f.end[f.n-1] = uint16(end)
			return
		}
	}
	f.text[f.n], f.begin[f.n], f.end[f.n] = c, uint16(begin), uint16(end)
	f.n++
}

// foldKey folds a brand's key, whose letters are ASCII.
func foldKey(key string) string {
	var f folded
	fold(key, &f)
	return string(f.text[:f.n])
}

// hidden stands in twins for hyphens, which leave nothing in a fold.
const hidden = '-'

// twins maps digits and letters to the one letter that stands for all that look like it.
var twins = func() (t [utf8.RuneSelf]byte) {
	for c := range t {
		t[c] = byte(c)
	}
	for i, c := range "01i345789q_" {
		t[c] = "olleastbgg-"[i]
	}
	return t
}()

// pair returns the letter that the neighbours a and b look like together, 0 when none.
func pair(a, b byte) byte {
	switch {
	case a == 'r' && b == 'n', a == 'n' && b == 'n':
		return 'm'
	case a == 'v' && b == 'v':
		return 'w'
	case a == 'c' && b == 'l':
		return 'd'
	}
	return 0
}

// likeness says how a letter outside ASCII resembles a Latin one.
type likeness byte

const (
	unlike   likeness = iota
	accented          // a Latin letter with a mark, or a ligature: plain spelling in most languages
	similar           // another letter that can pass for it
	same              // another letter that most typefaces draw alike
)

// Letters of U+00C0 to U+017F without their marks; '*' is no letter, digits are taken from ligatures.
const latinBase = "aaaaaa1ceeeeiiiidnooooo*ouuuuyt2aaaaaa1ceeeeiiiidnooooo*ouuuuytyaaaaaaccccccccddddeeeeeeeeeegggg" +
	"gggghhhhiiiiiiiiii33jjkkkllllllllllnnnnnnnnnoooooo44rrrrrrssssssssttttttuuuuuuuuuuuuwwyyyzzzzzzs"

// Letters of U+1E00 to U+1EFF without their marks.
const latinMore = "aabbbbbbccddddddddddeeeeeeeeeeffgghhhhhhhhhhiiiikkkkkkllllllllmmmmmmnnnnnnnnoooooooopppprrrrrrrr" +
	"ssssssssssttttttttuuuuuuuuuuvvvvwwwwwwwwwwxxxxyyzzzzzzhtwyasss2*aaaaaaaaaaaaaaaaaaaaaaaaeeeeeeee" +
	"eeeeeeeeiiiioooooooooooooooooooooooouuuuuuuuuuuuuuyyyyyyyyllvvyy"

// Pairs of a letter and the ASCII letter that it passes for, from Unicode's confusables by general knowledge: first those
// that most typefaces draw alike, then those that resemble.
const (
	drawnAlike = "аaеeоoрpсcуyхxѕsіiјjԁdԛqԝwһhӏlѵvҽe" + // Cyrillic
		"οoνvαaρpιiυuϲcϳj" + // Greek
		"օoսuհhոnցgզqյj" + // Armenian
		"ɑaɡgıiɩiʋuꞌi" + // Latin
		"ᴄcᴏoᴠvᴡwᴢzꮯcꭺaꮪsꮓz" // small capitals, Cherokee
	resembling = "вbгrеeёeзeикkмmнhпnтtцuьbъbєeїiґrүyұyөoәeӓaӧoԍgғfѡwшwщw" +
		"κkτtχxγyηnεeβbσoωwμuζzδoπnϊiίiόoάaύuϋuέeήn" +
		"րrտsդqեtկuղnբfփp" +
		"ɢgɪiʟlɴnʀrʏyʙbʜhᴀaᴅdᴇeᴊjᴋkᴍmᴘpᴛtᴜuɛeɔcɯmɾrʃfƿpɓbɖdɗdɠgɦhƙkɱm" +
		"ɲnɳnƥpɽrʂsƭtʈtʉuʐzƴyɇeɍrȼcƀbđdħhŧtɨiɵoƍgƨsƽsƅb"
)

// latin returns the ASCII letter that r passes for, a second one for ligatures, and how alike they are.
func latin(r rune) (first, second byte, how likeness) {
	switch {
	case r >= 0xc0 && int(r-0xc0) < len(latinBase):
		switch c := latinBase[r-0xc0]; c {
		case '1':
			return 'a', 'e', accented
		case '2':
			return 's', 's', accented
		case '3':
			return 'i', 'j', accented
		case '4':
			return 'o', 'e', accented
		case '*':
			return unknown, 0, unlike
		default:
			if r == 'ı' {
				return c, 0, same
			}
			return c, 0, accented
		}
	case r >= 0x1e00 && int(r-0x1e00) < len(latinMore):
		return latinMore[r-0x1e00], 0, accented
	case r >= 0xff01 && r <= 0xff5e: // fullwidth forms
		return lower(byte(r - 0xff01 + '!')), 0, same
	case r >= 0x1d400 && r <= 0x1d6a3: // mathematical letters: 52 to an alphabet
		return byte('a' + (r-0x1d400)%26), 0, same
	}
	if c := passesFor(drawnAlike, r); c != 0 {
		return c, 0, same
	}
	if c := passesFor(resembling, r); c != 0 {
		return c, 0, similar
	}
	return unknown, 0, unlike
}

func passesFor(table string, r rune) byte {
	found := false
	for _, t := range table {
		switch {
		case found && t < utf8.RuneSelf:
			return byte(t)
		case t == r:
			found = true
		}
	}
	return 0
}

func lower(c byte) byte {
	if c >= 'A' && c <= 'Z' {
		return c + 'a' - 'A'
	}
	return c
}
