package mail

import "strings"

// serviceWords are names of disposable mail services, found anywhere in a label without its hyphens.
var serviceWords = [...]string{
	"10minutemail", "minutemail", "minutesmail", "minuteinbox", "guerrillamail", "guerillamail", "mailinator",
	"mailnesia", "yopmail", "dropmail", "spambog", "spamgourmet", "nospammail", "anonbox", "anonymail", "anonymousmail",
	"anonmail", "mohmal", "getnada", "moakt", "selfdestruct", "inboxkitten", "mailsac", "linshiyou",
	"fakemailgenerator", "emailgenerator", "pochtanachas", "sutemeado",
}

// mailWords are words for mail in the languages of temporaryWords. The word email ends in the first, eposta in posta.
var mailWords = [...]string{"mail", "inbox", "correo", "courriel", "adress", "adresse", "adresa",
	"address", "poczta", "pochta", "posta", "postfach"}

// temporaryWords say that something is to be thrown away, fake or temporary, in English, German, French, Spanish,
// Italian, Portuguese, other languages of Europe, Russian, Turkish and Indonesian.
var temporaryWords = [...]string{
	"temp", "tmp", "tempo", "temporary", "throwaway", "throw", "trash", "trashy", "trashcan", "fake", "burner", "crap",
	"disposable", "dispo", "dispose", "disposea", "discard", "onetime", "onetimeuse", "oneoff", "dump", "wegwerf",
	"einmal", "einweg", "schrott", "muell", "jetable", "temporaire", "ephemere", "poubelle", "temps", "temporal",
	"desechable", "temporanea", "temporaneo", "usaegetta", "provvisoria", "temporario", "temporaria", "descartavel",
	"provisorio", "temporar", "tijdelijk", "tijdelijke", "wegwerp", "tymczasowa", "tymczasowy", "jednorazowa",
	"jednorazowy", "kurzzeit", "docasny", "docasna", "jednorazovy", "jednorazova", "vremennaya", "vremennaja",
	"vremenniy", "odnorazovaya", "odnorazovaja", "odnorazoviy", "privremeni", "privremena", "gecici", "sementara",
	"engangs", "ideiglenes", "eldobhato", "temporara",
}

// timeUnits follow the number of minutes, hours or days for which a mailbox exists.
var timeUnits = [...]string{
	"min", "mins", "minut", "minute", "minutes", "minuten", "minutos", "minuti", "hour", "hours", "day", "days", "tage",
}

// DisposableWord returns the words that mark one of the dot-separated labels as a disposable service, or "".
func DisposableWord(labels string) string {
	for labels != "" {
		label, rest, _ := strings.Cut(labels, ".")
		labels = rest
		joined := strings.ReplaceAll(label, "-", "")
		if len(joined) < len("moakt") {
			continue
		}
		for _, word := range serviceWords {
			if strings.Contains(joined, word) {
				return word
			}
		}
		for _, word := range mailWords {
			for at := strings.Index(joined, word); at >= 0; {
				if found := temporaryAround(joined, at, at+len(word)); found != "" {
					return found
				}
				next := strings.Index(joined[at+1:], word)
				if next < 0 {
					break
				}
				at += 1 + next
			}
		}
	}
	return ""
}

// temporaryAround returns the part of a label that joins the word for mail at start to end with one of temporaryWords
// or with a time, before or after it, or "".
func temporaryAround(label string, start, end int) string {
	before, after := label[:start], strings.TrimPrefix(label[end:], "s")
	if label[start:end] == "posta" && after != "" && after[0] > '9' && !startsTemporary(after) {
		return "" // postal, postage
	}
	for range 2 {
		if n := timeAtEnd(before); n > 0 {
			return label[len(before)-n : end]
		}
		for _, word := range temporaryWords {
			if strings.HasSuffix(before, word) {
				return label[len(before)-len(word) : end]
			}
		}
		if label[start] != 'm' && label[start:end] != "posta" || !strings.HasSuffix(before, "e") {
			break
		}
		before = before[:len(before)-1] // the e of email or eposta
	}
	for _, word := range temporaryWords {
		rest, found := strings.CutPrefix(after, word)
		if found && (len(word) >= len("jetable") || strings.Trim(rest, "0123456789") == "") {
			return label[start : len(label)-len(rest)]
		}
	}
	if after != "" && timeAtEnd(after) == len(after) {
		return label[start:]
	}
	return ""
}

// startsTemporary reports whether a text begins with one of temporaryWords.
func startsTemporary(text string) bool {
	for _, word := range temporaryWords {
		if strings.HasPrefix(text, word) {
			return true
		}
	}
	return false
}

// timeAtEnd returns the length of a number and a unit of time, such as 10min, at the end of a text, or 0.
func timeAtEnd(text string) int {
	for _, unit := range timeUnits {
		if number, found := strings.CutSuffix(text, unit); found {
			if digits := len(number) - len(strings.TrimRight(number, "0123456789")); digits > 0 {
				return digits + len(unit)
			}
		}
	}
	return 0
}
