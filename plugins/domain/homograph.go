package main

import (
	"strings"

	"assay/plugins/internal/quote"
	"assay/sdk"
)

// spelling is what the letters of one label tell.
type spelling struct {
	label    string
	common   scriptSet // scripts that all letters have: none when the label mixes scripts (UTS 39, section 5.1)
	foreign  scriptSet // of the letters that are not Latin
	latin    int       // Latin letters
	others   int       // letters that are not Latin, and stops
	passing  int       // of these, those that pass for ASCII
	exactly  int       // of these, those that most typefaces draw like ASCII letters
	first    rune      // the first of passing
	uncommon rune      // the first Latin letter that no language spells with and that passes for another, 0 for none
}

func spellingOf(label string) spelling {
	s := spelling{label: label, common: anyScript}
	for _, r := range label {
		set := scriptsOf(r)
		s.common &= set
		if r < 0x80 {
			if set == scriptLatin {
				s.latin++
			}
			continue
		}
		_, how := reads(r)
		if set&scriptLatin != 0 && how != stop {
			if set != anyScript {
				s.latin++
			}
			if how == rare && s.uncommon == 0 {
				s.uncommon = r
			}
			continue
		}
		if set != anyScript {
			s.foreign |= set
		}
		s.others++
		if how == unlike || how == mark {
			continue
		}
		s.passing++
		if how == same {
			s.exactly++
		}
		if s.first == 0 {
			s.first = r
		}
	}
	return s
}

// forged says whether Latin letters stand beside others that are there to pass for ASCII: all of them do, or the
// scripts are ones that no language mixes with Latin and that share shapes with it. What is left of UTS 39's levels
// (section 5.2), as Latin words in a Japanese or a Thai name, is spared.
func (s *spelling) forged() bool {
	switch {
	case s.passing == 0:
		return false
	case s.latin > 0 && s.passing == s.others && (s.common == 0 || s.foreign == 0):
		return true
	}
	return s.common == 0 && (s.foreign&shapely != 0 && s.latin > 0 || s.foreign&^shapely == 0)
}

// disguised says whether a label of three letters or more, none of them Latin, reads as Latin ones throughout: a
// whole-script confusable (UTS 39, section 4).
func (s *spelling) disguised() bool {
	return s.common&shapely != 0 && s.common != anyScript && s.latin == 0 && s.exactly == s.others && s.others >= 3
}

// scripts signals, in the labels of h left of its suffix, letters of several scripts, letters of no language's
// spelling, and words of another script that read as Latin throughout. It returns the points given. spoken says that a
// brand was already named for the foreign letters.
func scripts(c *sdk.Check, h *host, spoken bool) int {
	if !strings.Contains(h.ASCII, "xn--") {
		return 0
	}
	var uncommon, whole spelling
	rest, more := h.Subdomain, h.Subdomain != ""
	for label := h.Name; ; {
		s := spellingOf(label)
		switch {
		case s.forged():
			c.Signal(60, "domain:homograph:mixed_scripts", s.mixture())
			return 60
		case s.uncommon != 0 && uncommon.uncommon == 0:
			uncommon = s
		case s.disguised() && !homeOfScripts(h.TLD):
			whole = s
		}
		if !more {
			break
		}
		label, rest, more = strings.Cut(rest, ".")
	}
	switch {
	case spoken:
	case uncommon.uncommon != 0:
		letters, _ := reads(uncommon.uncommon)
		c.Signal(40, "domain:homograph:rare_letter", quote.Of(uncommon.label)+" is spelt with "+
			codePoint(uncommon.uncommon)+
			", a letter of hardly any language's spelling that looks like "+letters)
		return 40
	case whole.label != "":
		c.Signal(15, "domain:homograph:whole_script", quote.Of(whole.label)+" is written in "+whole.common.name()+
			", yet reads as Latin letters throughout: "+quote.Of(whole.plain()))
		return 15
	}
	return 0
}

// mixture tells what a forged label mixes.
func (s *spelling) mixture() string {
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
	letters, how := reads(s.first)
	switch how {
	case sign:
		letters = "a hyphen or an apostrophe"
	case stop:
		letters = "a dot or a slash"
	}
	return text + codePoint(s.first) + " looks like " + letters
}

// plain writes a label with the ASCII letters that its own pass for.
func (s *spelling) plain() string {
	text := ""
	for _, r := range s.label {
		if r < 0x80 {
			text += string(r)
		} else {
			letters, _ := reads(r)
			text += letters
		}
	}
	return text
}

// codePoint shows a character and its number.
func codePoint(r rune) string { return string(r) + " (U+" + hex(r) + ")" }

// homeOfScripts says whether tld belongs to a country, or is itself in a script, where such words are at home.
func homeOfScripts(tld string) bool {
	if strings.HasPrefix(tld, "xn--") {
		return true
	}
	switch tld {
	case "ru", "su", "bg", "rs", "me", "ba", "mk", "ua", "by", "kz", "kg", "tj", "mn", "uz", "gr", "cy", "am", "moscow":
		return true
	}
	return false
}
