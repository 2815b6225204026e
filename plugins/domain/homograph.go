package main

import (
	"strings"

	"assay/plugins/internal/quote"
	"assay/sdk"
)

// spelling is what the letters of one label tell.
type scriptProfile struct {
	label           string
	common          scriptSet // scripts that all letters have: none when the label mixes scripts (UTS 39, section 5.1)
	foreign         scriptSet // of the letters that are not Latin
	latin           int       // Latin letters
	others          int       // letters that are not Latin, and stops
	confusable      int       // of these, those that pass for ASCII
	identical       int       // of these, those that most typefaces draw like ASCII letters
	firstConfusable rune      // the first of passing
	rareLetter      rune      // the first Latin letter that no language spells with and that passes for another, 0 for none
}

func profileOf(label string) scriptProfile {
	s := scriptProfile{label: label, common: anyScript}
	for _, r := range label {
		set := scriptsOf(r)
		s.common &= set
		if r < 0x80 {
			if set == scriptLatin {
				s.latin++
			}
			continue
		}
		_, how := asASCII(r)
		if set&scriptLatin != 0 && how != dotLike {
			if set != anyScript {
				s.latin++
			}
			if how == rare && s.rareLetter == 0 {
				s.rareLetter = r
			}
			continue
		}
		if set != anyScript {
			s.foreign |= set
		}
		s.others++
		if how == unlike || how == combining {
			continue
		}
		s.confusable++
		if how == identical {
			s.identical++
		}
		if s.firstConfusable == 0 {
			s.firstConfusable = r
		}
	}
	return s
}

// forged says whether Latin letters stand beside others that are there to pass for ASCII: all of them do, or the
// scripts are ones that no language mixes with Latin and that share shapes with it. What is left of UTS 39's levels
// (section 5.2), as Latin words in a Japanese or a Thai name, is spared.
func (s *scriptProfile) mixesScripts() bool {
	switch {
	case s.confusable == 0:
		return false
	case s.latin > 0 && s.confusable == s.others && (s.common == 0 || s.foreign == 0):
		return true
	}
	return s.common == 0 && (s.foreign&lookalikeScripts != 0 && s.latin > 0 || s.foreign&^lookalikeScripts == 0)
}

// disguised says whether a label of three letters or more, none of them Latin, reads as Latin ones throughout: a
// whole-script confusable (UTS 39, section 4).
func (s *scriptProfile) isWholeScriptConfusable() bool {
	return s.common&lookalikeScripts != 0 && s.common != anyScript && s.latin == 0 && s.identical == s.others && s.others >= 3
}

// scripts signals, in the labels of h left of its suffix, letters of several scripts, letters of no language's
// spelling, and words of another script that read as Latin throughout. It returns the points given. spoken says that a
// brand was already named for the foreign letters.
func scoreScripts(c *sdk.Check, h *host, brandSignalled bool) int {
	if !strings.Contains(h.ASCII, "xn--") {
		return 0
	}
	var uncommon, whole scriptProfile
	rest, more := h.Subdomain, h.Subdomain != ""
	for label := h.Name; ; {
		s := profileOf(label)
		switch {
		case s.mixesScripts():
			c.Signal(60, "domain:homograph:mixed_scripts", s.describeMixture())
			return 60
		case s.rareLetter != 0 && uncommon.rareLetter == 0:
			uncommon = s
		case s.isWholeScriptConfusable() && !usesOtherScripts(h.TLD):
			whole = s
		}
		if !more {
			break
		}
		label, rest, more = strings.Cut(rest, ".")
	}
	switch {
	case brandSignalled:
	case uncommon.rareLetter != 0:
		letters, _ := asASCII(uncommon.rareLetter)
		c.Signal(40, "domain:homograph:rare_letter", quote.Of(uncommon.label)+" is spelt with "+
			describeRune(uncommon.rareLetter)+
			", a letter of hardly any language's spelling that looks like "+letters)
		return 40
	case whole.label != "":
		c.Signal(15, "domain:homograph:whole_script", quote.Of(whole.label)+" is written in "+whole.common.name()+
			", yet reads as Latin letters throughout: "+quote.Of(whole.ascii()))
		return 15
	}
	return 0
}

// mixture tells what a forged label mixes.
func (s *scriptProfile) describeMixture() string {
	text := quote.Of(s.label)
	first, second := scriptLatin, s.foreign
	if s.latin == 0 {
		first = s.foreign & -s.foreign // its first script
		second = s.foreign &^ first
	}
	if second != 0 {
		text += " mixes " + first.name() + " and " + second.name() + " letters: "
	} else {
		text += " holds a sign that no name is spelt with: "
	}
	letters, how := asASCII(s.firstConfusable)
	switch how {
	case hyphenLike:
		letters = "a hyphen or an apostrophe"
	case dotLike:
		letters = "a dot or a slash"
	}
	return text + describeRune(s.firstConfusable) + " looks like " + letters
}

// plain writes a label with the ASCII letters that its own pass for.
func (s *scriptProfile) ascii() string {
	text := ""
	for _, r := range s.label {
		if r < 0x80 {
			text += string(r)
		} else {
			letters, _ := asASCII(r)
			text += letters
		}
	}
	return text
}

// codePoint shows a character and its number.
func describeRune(r rune) string { return string(r) + " (U+" + hexCode(r) + ")" }

// homeOfScripts says whether tld belongs to a country, or is itself in a script, where such words are at home.
func usesOtherScripts(tld string) bool {
	if strings.HasPrefix(tld, "xn--") {
		return true
	}
	switch tld {
	case "ru", "su", "bg", "rs", "me", "ba", "mk", "ua", "by", "kz", "kg", "tj", "mn", "uz", "gr", "cy", "am", "moscow":
		return true
	}
	return false
}
