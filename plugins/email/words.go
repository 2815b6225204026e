package main

import "assay/plugins/internal/wordlist"

// moneyWords are about access, money or identity, which only fraud writes from a mailbox anybody can open; deskWords
// are what else an organisation calls its desks, mailings and errands; fillers name no desk by themselves. Each in the
// form of disposables.
const (
	moneyWords = `account accounts alert alerts claim claims compte confirm confirmation cuenta dispute disputes
donotreply fraud konto kyc locked login noreply recovery reembolso refund refunds remboursement rimborso
rueckerstattung secure securite security seguridad sicherheit sicurezza signin suspended suspension unlock validate
validation verif verification verified verify
`
	deskWords = `admin administrator agent airdrop assist assistance assistenza atencion bank banking billing bonus
care career careers center centre client clientes clients compliance contact crypto customer customers daemon
delivery department dept desk finance gift giveaway help helpdesk helpline hiring hr info invoice invoices job jobs
kunden kundendienst kundenservice livraison loan loans manager notice notices notification notifications office
official order orders paket parcel pay payment payments prize promo protection recruiter recruitment renew renewal
reply resolution reward rewards safety service services servicio servicios servizio shipping soporte subscription
support supports tax team teams tech technical tracking trust update updates wallet
`
	fillers = `app at ch com corp de email es eu for fr from global group id inc international it llc ltd mail
mailer my nl no online pro server system systems the uk us usa user users web your
`
)

// maxWord is the length in bytes of the longest of those words.
const maxWord = 15

// starts holds, for each first letter a-z of those words, the second letters that follow it, a bit each: most names end
// the search there.
var starts = [26]letters{
	0xc894c, 0x04101, 0x124891, 0x04111, 0x141000, 0x24100, 0x20900, 0x20110,
	0x82008, 0x04000, 0x1104000, 0x84900, 0x1000001, 0x04800, 0x22020, 0x20001,
	0x00000, 0x100110, 0x1104191, 0x20091, 0x4a400, 0x00011, 0x00011, 0x00000,
	0x04000, 0x00000,
}

// startsWord says whether one of those words may begin s.
func startsWord(s string) bool {
	if len(s) < 2 || s[0]-'a' >= 26 || s[1]-'a' >= 26 {
		return false
	}
	return starts[s[0]-'a']&(1<<(s[1]-'a')) != 0
}

// wording is what a run of letters without separators is made of.
type wording struct {
	whole bool // of nothing but service words and digits
	desks int  // of moneyWords and deskWords
	money int  // of moneyWords
}

// segment reads s as service words one after another, longest first, and digits between them.
func segment(s string) wording {
	w := wording{whole: true}
	for s != "" {
		if s[0] >= '0' && s[0] <= '9' {
			s = s[1:]
			continue
		}
		if !startsWord(s) {
			w.whole = false
			return w
		}
		size := min(len(s), maxWord)
		for ; size > 1; size-- {
			if wordlist.Has(moneyWords, s[:size]) {
				w.desks, w.money = w.desks+1, w.money+1
				break
			}
			if wordlist.Has(deskWords, s[:size]) {
				w.desks++
				break
			}
			if wordlist.Has(fillers, s[:size]) {
				break
			}
		}
		if size <= 1 {
			w.whole = false
			return w
		}
		s = s[size:]
	}
	return w
}
