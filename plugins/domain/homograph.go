package main

import (
	"strings"

	"assay/sdk"
)

// scriptProfile counts the letters of a label by script and resemblance to ASCII.
type scriptProfile struct {
	label           string
	common          scriptSet // scripts that all letters share, empty for a mixed-script label (UTS 39, section 5.1)
	foreign         scriptSet // scripts of the letters that are not Latin
	latin           int       // Latin letters
	others          int       // letters that are not Latin, and dotLike characters
	confusable      int       // how many of others look like ASCII
	identical       int       // how many of others most typefaces draw like ASCII letters
	firstConfusable rune      // the first character that confusable counts
	rareLetter      rune      // the first rare letter, or 0
}

// profileOf counts the letters of label, a U-label.
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

// mixesScripts reports whether the label mixes scripts in order to look like ASCII: either all letters that are not
// Latin look like ASCII, or their scripts share letter shapes with Latin. Other mixtures (UTS 39, section 5.2), such as
// a Latin word in a Japanese or Thai name, are legitimate.
func (s *scriptProfile) mixesScripts() bool {
	switch {
	case s.confusable == 0:
		return false
	case s.latin > 0 && s.confusable == s.others && (s.common == 0 || s.foreign == 0):
		return true
	}
	return s.common == 0 && (s.foreign&lookalikeScripts != 0 && s.latin > 0 || s.foreign&^lookalikeScripts == 0)
}

// isWholeScriptConfusable reports whether a label has at least three letters, none of them Latin, that all look like
// ASCII letters (UTS 39, section 4).
func (s *scriptProfile) isWholeScriptConfusable() bool {
	return s.common&lookalikeScripts != 0 && s.common != anyScript &&
		s.latin == 0 && s.others >= 3 && s.identical == s.others
}

// scoreScripts raises at most one signal for the labels of h left of its suffix, for mixed scripts, rare letters or a
// whole-script confusable. If brandSignalled is set, a signal already names the brand that these letters imitate, so
// only mixed scripts are signalled.
func scoreScripts(c *sdk.Check, h *host, brandSignalled bool) {
	if !strings.Contains(h.ASCII, "xn--") {
		return
	}
	var rareLabel, wholeLabel scriptProfile
	rest, more := h.Subdomain, h.Subdomain != ""
	for label := h.Name; ; {
		s := profileOf(label)
		switch {
		case s.mixesScripts():
			s.signalMixture(c)
			return
		case s.rareLetter != 0 && rareLabel.rareLetter == 0:
			rareLabel = s
		case s.isWholeScriptConfusable() && !usesOtherScripts(h.TLD):
			wholeLabel = s
		}
		if !more {
			break
		}
		label, rest, more = strings.Cut(rest, ".")
	}
	switch {
	case brandSignalled:
	case rareLabel.rareLetter != 0:
		letters, _ := asASCII(rareLabel.rareLetter)
		w := startText(codeRareLetter, "")
		w.rune(rareLabel.rareLetter)
		w.write(" looks like ")
		w.quote(letters)
		w.signal(c, 40, codeRareLetter)
	case wholeLabel.label != "":
		w := startText(codeWholeScript, "")
		w.write(wholeLabel.common.name())
		w.write(" letters that read as ")
		w.quote(wholeLabel.ascii())
		w.signal(c, 15, codeWholeScript)
	}
}

// signalMixture raises the signal for a label that mixesScripts, with its scripts and the first confusable letter.
func (s *scriptProfile) signalMixture(c *sdk.Check) {
	first, second := scriptLatin, s.foreign
	if s.latin == 0 {
		first = s.foreign & -s.foreign // its first script
		second = s.foreign &^ first
	}
	w := startText(codeMixedScripts, "")
	w.write(first.name())
	if second != 0 {
		w.write(" and ")
		w.write(second.name())
		w.write(" letters: ")
	} else {
		w.write(" letters and a sign that no name is spelt with: ")
	}
	w.rune(s.firstConfusable)
	w.write(" looks like ")
	switch letters, how := asASCII(s.firstConfusable); how {
	case hyphenLike:
		w.write("a hyphen or an apostrophe")
	case dotLike:
		w.write("a dot or a slash")
	default:
		w.quote(letters)
	}
	w.signal(c, reviewPoints, codeMixedScripts)
}

// ascii returns the label with the ASCII letters that its characters look like.
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

// usesOtherScripts reports whether tld is internationalised or belongs to a country or city that writes in a script
// similar to Latin, where whole-script confusables are ordinary words.
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
