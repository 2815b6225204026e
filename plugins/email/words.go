package main

import (
	_ "embed"

	"assay/plugins/internal/wordlist"
)

// The service words, each list in wordlist form. moneyWords are about access, money or identity: no organisation writes
// about those from a mailbox that anyone can open. deskWords are other names of desks, mailings and tasks. fillers
// alone do not name a desk.
var (
	//go:embed words_money.txt
	moneyWords string
	//go:embed words_desk.txt
	deskWords string
	//go:embed words_filler.txt
	fillers string
)

// officeWords are those of moneyWords and deskWords that small firms combine for their mailboxes, in wordlist form.
const officeWords = "account accounts admin billing claim claims department manager office security service services "

// maxWord is the length in bytes of the longest service word.
const maxWord = 15

// secondLetters holds, for each first letter a to z of a service word, the second letters that follow it. It cuts most
// searches short.
var secondLetters = [26]letters{
	0x10c8b4c, 0x04911, 0x124891, 0x04111, 0x143000, 0x24101, 0x120900, 0x20110,
	0x82008, 0x04000, 0x1104801, 0x84900, 0x1000001, 0x04800, 0x22020, 0x24811,
	0x00000, 0x100110, 0x1104191, 0x20091, 0x4a440, 0x00011, 0x40011, 0x00000,
	0x04000, 0x100001,
}

// mayStartWord reports whether s may start with a service word.
func mayStartWord(s string) bool {
	if len(s) < 2 || s[0]-'a' >= 26 || s[1]-'a' >= 26 {
		return false
	}
	return secondLetters[s[0]-'a']&(1<<(s[1]-'a')) != 0
}

// wording describes the service words in a text without separators.
type wording struct {
	whole   bool // the text consists of service words and digits
	desks   int  // number of moneyWords and deskWords
	money   int  // number of moneyWords
	offices int  // number of officeWords
}

// segment splits s into service words, longest first, and digits between them. It stops where neither follows, unless
// a shorter word leads further: accountsupport begins with account, not with accounts.
func segment(s string) wording {
	for s != "" && s[0] >= '0' && s[0] <= '9' {
		s = s[1:]
	}
	if s == "" {
		return wording{whole: true}
	}
	best, found := wording{}, false
	if !mayStartWord(s) {
		return best
	}
	for size := min(len(s), maxWord); size > 1; size-- {
		word := s[:size]
		desks, money := 0, 0
		switch {
		case wordlist.Has(moneyWords, word):
			desks, money = 1, 1
		case wordlist.Has(deskWords, word):
			desks = 1
		case !wordlist.Has(fillers, word):
			continue
		}
		rest := segment(s[size:])
		rest.desks, rest.money = rest.desks+desks, rest.money+money
		if wordlist.Has(officeWords, word) {
			rest.offices++
		}
		if rest.whole {
			return rest
		}
		if !found {
			best, found = rest, true
		}
	}
	return best
}
