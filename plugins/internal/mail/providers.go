// Package mail knows mailbox providers and privacy relays, beyond those that the host recognises.
package mail

import (
	"strings"

	"assay/plugins/internal/wordlist"
)

// knownProviders are providers that the host does not recognise and whose mailboxes people keep for years: internet
// access providers, and the vanity domains of mail.com. In wordlist form.
const knownProviders = `012.net.il 21cn.com 9online.fr accountant.com activist.com adexec.com adinet.com.uy
aliceadsl.fr allergist.com alumni.com alumnidirector.com amorki.pl aon.at archaeologist.com arcor.de arnet.com.ar
artlover.com aruba.it asia.com auctioneer.net australiamail.com autograf.pl bartender.net beotel.net bezeqint.net
bigfoot.com biglobe.ne.jp bigmir.net bigpond.com bigpond.net.au bikerider.com birdlover.com bluemail.ch bredband.net
brew-meister.com broadpark.no buziaczek.pl canada.com cantv.net caramail.com care2.com cash4u.com catlover.com
cegetel.net centurylink.net charter.net cheerful.com chef.net chello.at chemist.com ciudad.com.ar clerk.com clix.pt
clubmember.org collector.org columnist.com comhem.se comic.com computer4u.com consultant.com contractor.net
coolsite.net counsellor.com cox.net cutey.com cyber-wizard.com cyberdude.com cybergal.com cytanet.com.cy dallasmail.com
dbmail.com dds.nl deliveryman.com diplomats.com dir.bg disciples.com discofan.com disposable.com disroot.org
docomo.ne.jp doctor.com doglover.com dr.com dublin.com e1.ru earthling.net earthlink.net eircom.net elisanet.fi
elvisfan.com email.com email.it email.si email.ua engineer.com eresmas.com eudoramail.com eunet.rs europe.com
ewetel.net excite.co.jp excite.com execs.com eyou.com ezweb.ne.jp fastservice.com fastwebnet.it fibertel.com.ar
financier.com fireman.net forthnet.gr freeler.nl freeserve.co.uk freeuk.com frontier.com galaxyhit.com gardener.com
gawab.com gbg.bg geologist.com germanymail.com globo.com globomail.com glocalnet.net go2.pl goo.jp graduate.org
graphic-designer.com gratisweb.com greenmail.net groupmail.com hackermail.com hairdresser.net hilarious.com hinet.net
hispeed.ch hockeymail.com hol.gr homemail.com hot-shot.com hotbox.ru hotpop.com hour.com humanoid.net hush.com
hushmail.com i.softbank.jp i.ua ig.com.br iinet.net.au in.gr iname.com inbox.com inbox.lv indamail.hu indiatimes.com
indigo.ie inet.hr infoseek.jp inorbit.com instruction.com instructor.net insurer.com interfree.it iol.ie iol.pt
italymail.com japan.com job4u.com journalist.com jubii.dk jumpy.it juno.com kabelmail.de katamail.com keromail.com
kissfans.com kittymail.com kolabnow.com kolumbus.fi koreamail.com lavabit.com lawyer.com legislator.com lineone.net
linuxmail.org london.com lovecat.com luukku.com lycos.com mac.hush.com madonnafan.com mail-me.com mail.bg mail.de
mail.dk mail.ee mail.gr mail.pt mail2world.com mail333.com mailfence.com marchmail.com meta.ua metalfan.com
mexicomail.com mindless.com mindspring.com minister.com moscowmail.com munich.com musician.org muslim.com mweb.co.za
mynet.com myself.com nate.com net.hr netcabo.pt netscape.net netvigator.com netvision.net.il netzero.net newmail.ru
ngs.ru nifty.com nm.ru nonpartisan.com noos.fr null.net numericable.fr nycmail.com o2.co.uk ocn.ne.jp ofir.dk oi.com.br
ole.com one.lt online.nl online.no ono.com optician.com optonline.net optusnet.com.au orange.net orthodontist.net
otenet.gr pacific-ocean.com pacific.net.sg pacificwest.com pchome.com.tw pec.it pediatrician.com petlover.com
photographer.net physicist.net planetmail.com planetmail.net pobox.sk pochta.ru politician.com pop.com.br post.com
post.sk post.tele.dk poste.it pp.inet.fi presidency.com priest.com primehome.com prodigy.net.mx programmer.net ptt.rs
publicist.com qualityservice.com quick.cz quicknet.nl r7.com radiologist.net ravemail.com realtyagent.com reborn.com
reggaefan.com registerednurses.com reincarnate.com religious.com repairman.com representative.com rescueteam.com
riseup.net rocketship.com rogers.com rr.com runbox.com safrica.com saintly.com salesperson.net samerica.com
sanfranmail.com saunalahti.fi sbb.rs scarlet.be scotlandmail.com secretary.net shaw.ca sify.com singnet.com.sg siol.net
slingshot.co.nz snakebite.com so-net.ne.jp socialworker.net sociologist.com softbank.ne.jp sohu.com solution4u.com
songwriter.net spainmail.com speedy.com.ar spray.se startmail.com stofanet.dk stonline.sk sunrise.ch suomi24.fi
supanet.com supereva.it superonline.com surgical.net swedenmail.com swissmail.com swissonline.ch sympatico.ca
t-online.hu talk21.com tdcadsl.dk teachers.org tech-center.com techie.com technologist.com tele2.it tele2.nl tele2.se
telefonica.net telia.com telkomsa.net telus.net terra.com terra.es theplate.com therapist.net tin.it tiscali.at
tiscali.co.uk tiscali.cz toke.com tom.com toothfairy.com torontomail.com tpg.com.au ttnet.net.tr turk.net tut.by
tvstar.com umpire.com une.net.co unitybox.de uole.com upcmail.hu upcmail.nl usa.com usa.net utanet.at uymail.com
videotron.ca vipmail.hu vodafone.de voila.fr volja.net volny.cz vsnl.net vtr.net walla.co.il walla.com wanadoo.es
wanadoo.nl webmail.co.za webname.com whoever.com windstream.net winning.com witty.com worker.com workmail.com
writeme.com xs4all.nl xtra.co.nz ya.com yours.com zahav.net.il zipmail.com.br zonnet.nl
`

// Provider returns the provider's domain that equals host or is a parent of it, or "". Mail2World offers addresses
// under a great many names that begin with mail2.
func Provider(host string) string {
	if strings.HasPrefix(host, "mail2") && strings.HasSuffix(host, ".com") && strings.Count(host, ".") == 1 &&
		len(host) > len("mail2ab.com") {
		return host
	}
	return Listed(knownProviders, host)
}

// Relay returns the privacy relay whose domain equals host or is a parent of it, or "".
func Relay(host string) string { return Listed(relays, host) }

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
