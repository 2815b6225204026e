package mail

// relays are services that forward a masked address to a real mailbox, in wordlist form. Their users are real people,
// so they are never disposable.
const relays = `33mail.com 4wrd.cc 8alias.com 8shield.net addy.io addymail.com aleeas.com anonaddy.com anonaddy.me
burnermail.io dralias.com duck.com e4ward.com erine.email forwardemail.net liamekaens.com mozmail.com opayq.com
passfwd.com passinbox.com passmail.com passmail.net private.icloud.com privaterelay.appleid.com relay.firefox.com
silomails.com simplelogin.co simplelogin.com simplelogin.fr simplelogin.io slmail.me slmails.com sneakemail.com
snkmail.com use-startmail.com
`
