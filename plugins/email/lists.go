package main

import (
	"strings"

	"assay/plugins/internal/wordlist"
)

// listed returns the entry of list that is host or a parent of it, or "". A single label is never looked up.
func listed(list, host string) string {
	for strings.IndexByte(host, '.') >= 0 {
		if wordlist.Has(list, host) {
			return host
		}
		host = host[strings.IndexByte(host, '.')+1:]
	}
	return ""
}

// throwawayWords name a disposable service wherever they stand in a label without its hyphens.
var throwawayWords = [...]string{
	"tempmail", "tempemail", "tempinbox", "tempomail", "tmpmail", "tmpemail", "emailtemp", "temporarymail",
	"temporaryemail", "temporaryinbox", "tempsmail", "trashmail", "trashemail", "trashymail", "mailtrash", "trashinbox",
	"throwaway", "10minute", "10minmail", "minutemail", "minutesmail", "minuteinbox", "guerrillamail", "guerillamail",
	"mailinator", "disposable", "disposemail", "fakemail", "fakeemail", "fakeinbox", "emailfake", "spambox", "spambog",
	"spamgourmet", "nospammail", "burnermail", "burneremail", "yopmail", "dropmail", "maildrop", "mailcatch",
	"mailnesia", "discardmail", "wegwerfmail", "wegwerfemail", "einmalmail", "schrottmail", "muellmail", "mailjetable",
	"emailjetable", "onetimemail", "onetimeemail", "anonbox", "anonymail", "anonymousmail", "mohmal", "getnada",
	"moakt",
	"crapmail", "dumpmail", "selfdestruct", "oneoffmail", "inboxkitten", "mailsac", "emailtemporal",
	"correotemporal", "emailtemporar", "mailtemporaire", "emailtemporanea", "linshiyou", "fakebox", "spammail",
	"emailgenerator", "mailgenerator", "minutesemail",
}

// wordsBeforeMail name one as a hyphenated word beside "mail", "email" or "inbox"; they are too short to be sought
// inside words.
var wordsBeforeMail = [...]string{"temp", "tmp", "temporary", "trash", "fake", "burner", "junk", "spam", "throw",
	"anon"}

// letters is the set of the letters a-z, one bit each, that a text holds: it rules most words out without a search.
type letters uint32

func lettersOf(text string) letters {
	var set letters
	for i := range len(text) {
		if c := text[i] - 'a'; c < 26 {
			set |= 1 << c
		}
	}
	return set
}

// spell says whether every letter a-z of word is in the set.
func (set letters) spell(word string) bool {
	for i := range len(word) {
		if c := word[i] - 'a'; c < 26 && set&(1<<c) == 0 {
			return false
		}
	}
	return true
}

// throwawayWord returns the word that makes one of the dot-separated labels the name of a disposable service, or "".
func throwawayWord(labels string) string {
	for labels != "" {
		label, rest, _ := strings.Cut(labels, ".")
		labels = rest
		joined := label
		if strings.IndexByte(label, '-') >= 0 {
			if word := hyphenated(label); word != "" {
				return word
			}
			joined = strings.ReplaceAll(label, "-", "")
		}
		if len(joined) < len("moakt") {
			continue
		}
		present := lettersOf(joined)
		for _, word := range throwawayWords {
			if present.spell(word) && strings.Contains(joined, word) {
				return word
			}
		}
	}
	return ""
}

// hyphenated finds in a label such as temp-mail-box one word of wordsBeforeMail and a word for mail.
func hyphenated(label string) string {
	found, mail := "", false
	for label != "" {
		part, rest, _ := strings.Cut(label, "-")
		label = rest
		switch part {
		case "mail", "mails", "email", "emails", "inbox", "mailbox":
			mail = true
			continue
		}
		for _, word := range wordsBeforeMail {
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
