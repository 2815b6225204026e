// Package mail knows mailbox providers and privacy relays, beyond those that the host recognises.
package mail

import (
	"strings"

	"assay/plugins/internal/wordlist"
	"assay/sdk"
)

// networks are providers that the host does not recognise and whose mailboxes people keep for years, mostly internet
// access providers. In wordlist form.
const networks = `012.net.il 21cn.com 9online.fr adinet.com.uy aliceadsl.fr amorki.pl aon.at arcor.de arnet.com.ar aruba.it
autograf.pl beotel.net bezeqint.net bigfoot.com biglobe.ne.jp bigmir.net bigpond.com bigpond.net.au bluemail.ch
bredband.net broadpark.no buziaczek.pl canada.com cantv.net caramail.com care2.com cegetel.net centurylink.net
charter.net chello.at ciudad.com.ar clix.pt comhem.se cox.net cytanet.com.cy dds.nl dir.bg disroot.org docomo.ne.jp
e1.ru earthlink.net eircom.net elisanet.fi email.it email.si email.ua eresmas.com eudoramail.com eunet.rs ewetel.net
excite.co.jp excite.com eyou.com ezweb.ne.jp fastwebnet.it fibertel.com.ar forthnet.gr freeler.nl freeserve.co.uk
freeuk.com frontier.com gawab.com gbg.bg globo.com glocalnet.net go2.pl goo.jp gratisweb.com hinet.net hispeed.ch
hol.gr hotbox.ru hotpop.com hush.com hushmail.com i.softbank.jp i.ua ig.com.br iinet.net.au in.gr inbox.com inbox.lv
indamail.hu indiatimes.com indigo.ie inet.hr infoseek.jp interfree.it iol.ie iol.pt jubii.dk jumpy.it juno.com
kabelmail.de katamail.com kolabnow.com kolumbus.fi lavabit.com lineone.net luukku.com lycos.com mac.hush.com mail.bg
mail.de mail.dk mail.ee mail.gr mail.pt mail2world.com mail333.com mailfence.com meta.ua mindspring.com mweb.co.za
mynet.com nate.com net.hr netcabo.pt netscape.net netvigator.com netvision.net.il netzero.net newmail.ru ngs.ru
nifty.com nm.ru noos.fr numericable.fr o2.co.uk ocn.ne.jp ofir.dk oi.com.br ole.com one.lt online.nl online.no
ono.com optonline.net optusnet.com.au orange.net otenet.gr pacific.net.sg pchome.com.tw pec.it pobox.sk pochta.ru
pop.com.br post.sk post.tele.dk poste.it pp.inet.fi prodigy.net.mx ptt.rs quick.cz quicknet.nl r7.com riseup.net
rogers.com rr.com runbox.com saunalahti.fi sbb.rs scarlet.be shaw.ca sify.com singnet.com.sg siol.net
slingshot.co.nz so-net.ne.jp softbank.ne.jp sohu.com speedy.com.ar spray.se startmail.com stofanet.dk stonline.sk
sunrise.ch suomi24.fi supanet.com supereva.it superonline.com swissonline.ch sympatico.ca t-online.hu talk21.com
tdcadsl.dk tele2.it tele2.nl tele2.se telefonica.net telia.com telkomsa.net telus.net terra.com terra.es tin.it
tiscali.at tiscali.co.uk tiscali.cz tom.com tpg.com.au ttnet.net.tr turk.net tut.by une.net.co unitybox.de uole.com
upcmail.hu upcmail.nl utanet.at videotron.ca vipmail.hu vodafone.de voila.fr volja.net volny.cz vsnl.net vtr.net
walla.co.il walla.com wanadoo.es wanadoo.nl webmail.co.za windstream.net xs4all.nl xtra.co.nz ya.com zahav.net.il
zipmail.com.br zonnet.nl
`

// vanity are names that mail.com and other providers offer beside their own. They are words, and a word that is one
// letter away is another one.
const vanity = `accountant.com activist.com adexec.com allergist.com alumni.com alumnidirector.com archaeologist.com artlover.com
asia.com auctioneer.net australiamail.com bartender.net bikerider.com birdlover.com brew-meister.com cash4u.com
catlover.com cheerful.com chef.net chemist.com clerk.com clubmember.org collector.org columnist.com comic.com
computer4u.com consultant.com contractor.net coolsite.net counsellor.com cutey.com cyber-wizard.com cyberdude.com
cybergal.com dallasmail.com dbmail.com deliveryman.com diplomats.com disciples.com discofan.com disposable.com
doctor.com doglover.com dr.com dublin.com earthling.net elvisfan.com email.com engineer.com europe.com execs.com
fastservice.com financier.com fireman.net galaxyhit.com gardener.com geologist.com germanymail.com globomail.com
graduate.org graphic-designer.com greenmail.net groupmail.com hackermail.com hairdresser.net hilarious.com
hockeymail.com homemail.com hot-shot.com hour.com humanoid.net iname.com inorbit.com instruction.com instructor.net
insurer.com italymail.com japan.com job4u.com journalist.com keromail.com kissfans.com kittymail.com koreamail.com
lawyer.com legislator.com linuxmail.org london.com lovecat.com madonnafan.com mail-me.com marchmail.com metalfan.com
mexicomail.com mindless.com minister.com moscowmail.com munich.com musician.org muslim.com myself.com
nonpartisan.com null.net nycmail.com optician.com orthodontist.net pacific-ocean.com pacificwest.com
pediatrician.com petlover.com photographer.net physicist.net planetmail.com planetmail.net politician.com post.com
presidency.com priest.com primehome.com programmer.net publicist.com qualityservice.com radiologist.net ravemail.com
realtyagent.com reborn.com reggaefan.com registerednurses.com reincarnate.com religious.com repairman.com
representative.com rescueteam.com rocketship.com safrica.com saintly.com salesperson.net samerica.com
sanfranmail.com scotlandmail.com secretary.net snakebite.com socialworker.net sociologist.com solution4u.com
songwriter.net spainmail.com surgical.net swedenmail.com swissmail.com teachers.org tech-center.com techie.com
technologist.com theplate.com therapist.net toke.com toothfairy.com torontomail.com tvstar.com umpire.com usa.com
usa.net uymail.com webname.com whoever.com winning.com witty.com worker.com workmail.com writeme.com yours.com
`

// Provider returns the provider's domain that equals host or is a parent of it, or "". Mail2World offers addresses
// under a great many names that begin with mail2.
func Provider(host string) string {
	if strings.HasPrefix(host, "mail2") && strings.HasSuffix(host, ".com") && strings.Count(host, ".") == 1 &&
		len(host) > len("mail2ab.com") {
		return host
	}
	if name := Listed(networks, host); name != "" {
		return name
	}
	return Listed(vanity, host)
}

// Relay returns the privacy relay whose domain equals host or is a parent of it, or "".
func Relay(host string) string { return Listed(relays, host) }

// Written returns the mail domain as the address has it, because some providers have several names for one. host is the
// one that the host made of it.
func Written(c *sdk.Check, host string) string {
	address := c.Get(sdk.EmailAddress)
	if at := strings.LastIndexByte(address, '@'); at >= 0 {
		return address[at+1:]
	}
	return host
}

// Listed returns the entry of list, in wordlist form, that equals host or is a parent domain of it, or "". It never
// looks up a single label.
func Listed(list, host string) string {
	for strings.IndexByte(host, '.') >= 0 {
		if wordlist.Has(list, host) {
			return host
		}
		host = host[strings.IndexByte(host, '.')+1:]
	}
	return ""
}
