package main

import "strings"

// disposableWords mark a disposable service anywhere in a label without its hyphens.
var disposableWords = [...]string{
	"tempmail", "tempemail", "tempinbox", "tempomail", "tmpmail", "tmpemail", "emailtemp", "temporarymail",
	"temporaryemail", "temporaryinbox", "tempsmail", "trashmail", "trashemail", "trashymail", "mailtrash", "trashinbox",
	"throwaway", "10minute", "10minmail", "minutemail", "minutesmail", "minuteinbox", "guerrillamail", "guerillamail",
	"mailinator", "disposable", "disposemail", "fakemail", "fakeemail", "fakeinbox", "emailfake", "spambox", "spambog",
	"spamgourmet", "nospammail", "burnermail", "burneremail", "yopmail", "dropmail", "maildrop", "mailcatch",
	"mailnesia", "discardmail", "wegwerfmail", "wegwerfemail", "einmalmail", "schrottmail", "muellmail", "mailjetable",
	"emailjetable", "onetimemail", "onetimeemail", "anonbox", "anonymail", "anonymousmail", "mohmal", "getnada",
	"moakt", "crapmail", "dumpmail", "selfdestruct", "oneoffmail", "inboxkitten", "mailsac", "emailtemporal",
	"correotemporal", "emailtemporar", "mailtemporaire", "emailtemporanea", "linshiyou", "fakebox", "spammail",
	"emailgenerator", "mailgenerator", "minutesemail",
}

// disposableParts mark a disposable service as a hyphenated word next to a word for mail. They are too short to look
// for inside words.
var disposableParts = [...]string{
	"temp", "tmp", "temporary", "trash", "fake", "burner", "junk", "spam", "throw", "anon",
}

// letters is the set of letters a to z in a text, one bit each. It rules out most words without a search.
type letters uint32

func letterSet(text string) letters {
	var set letters
	for i := range len(text) {
		if c := text[i] - 'a'; c < 26 {
			set |= 1 << c
		}
	}
	return set
}

// spell reports whether the set holds every letter a to z of word.
func (set letters) spell(word string) bool {
	for i := range len(word) {
		if c := word[i] - 'a'; c < 26 && set&(1<<c) == 0 {
			return false
		}
	}
	return true
}

// disposableWord returns the word that marks one of the dot-separated labels as a disposable service, or "".
func disposableWord(labels string) string {
	for labels != "" {
		label, rest, _ := strings.Cut(labels, ".")
		labels = rest
		joined := label
		if strings.IndexByte(label, '-') >= 0 {
			if word := hyphenatedWord(label); word != "" {
				return word
			}
			joined = strings.ReplaceAll(label, "-", "")
		}
		if len(joined) < len("moakt") {
			continue
		}
		present := letterSet(joined)
		for _, word := range disposableWords {
			if present.spell(word) && strings.Contains(joined, word) {
				return word
			}
		}
	}
	return ""
}

// hyphenatedWord returns the last of disposableParts in a label that also has a word for mail, such as temp-mail-box,
// or "".
func hyphenatedWord(label string) string {
	found, mail := "", false
	for label != "" {
		part, rest, _ := strings.Cut(label, "-")
		label = rest
		switch part {
		case "mail", "mails", "email", "emails", "inbox", "mailbox":
			mail = true
			continue
		}
		for _, word := range disposableParts {
			if part == word {
				found = word
			}
		}
	}
	if mail {
		return found
	}
	return ""
}
