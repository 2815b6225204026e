package main

// relays are services that forward to a real mailbox under a masked address, in the form of disposables. Their users
// are real people, so they must never be called disposable.
const relays = `33mail.com 4wrd.cc 8alias.com 8shield.net addy.io addymail.com aleeas.com anonaddy.com
anonaddy.me burnermail.io dralias.com duck.com e4ward.com erine.email forwardemail.net mozmail.com opayq.com
passfwd.com passinbox.com passmail.com passmail.net privaterelay.appleid.com relay.firefox.com silomails.com
simplelogin.co simplelogin.com simplelogin.fr simplelogin.io slmail.me slmails.com sneakemail.com use-startmail.com
`
