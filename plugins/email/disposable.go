package main

import (
	_ "embed"

	"assay/plugins/internal/mail"
)

// disposables are services whose mailboxes need no account and are not kept, in the form that package wordlist
// searches. A domain includes all its subdomains.
const disposables = `0-mail.com 0815.ru 0box.eu 0clickemail.com 0wnd.net 0wnd.org 10mail.org 10mail.xyz 10minut.com.pl
10minutemail.be 10minutemail.cf 10minutemail.co.uk 10minutemail.co.za 10minutemail.com 10minutemail.de 10minutemail.ga
10minutemail.gq 10minutemail.info 10minutemail.ml 10minutemail.net 10minutemail.org 10minutemail.pro 10minutemail.us
10minutesmail.com 10x9.com 123-m.com 12hourmail.com 12minutemail.com 1ce.us 1chuan.com 1mail.ml 1pad.de 1secmail.com
1secmail.net 1secmail.org 1st-forms.com 1usemail.com 20email.eu 20mail.in 20mail.it 20minutemail.com 20minutemail.it
20mm.eu 24hourmail.com 24hourmail.net 2prong.com 30minutemail.com 30wave.com 3d-painting.com 3mail.ga 4mail.cf
4warding.com 5mail.cf 60minutemail.com 675hosting.com 6url.com 75hosting.com 7tags.com 9mail.cf 9ox.net a-bc.net
abyssmail.com agedmail.com ama-trade.de amilegit.com amiri.net anonbox.net anonmails.de anonymbox.com antichef.com
antichef.net antispam.de any.pink armyspy.com artman-conception.com asdasd.nl azmeil.tk baxomale.ht.cx beefmilk.com
bigstring.com binkmail.com bio-muesli.net bladesmail.net bloatbox.com bobmail.info bodhi.lawlita.com bofthew.com
bootybay.de boun.cr bouncr.com boxformail.in boximail.com boxtemp.com.br breakthru.com brefmail.com brennendesreich.de
broadbandninja.com bsnow.net buffemail.com bugmenot.com bumpymail.com burnthespam.info burstmail.info buymoreplays.com
byom.de cachedot.net card.zp.ua casualdx.com cek.pm cellurl.com centermail.com centermail.net cevipsa.com chammy.info
cheatmail.de childsavetrust.org chogmail.com choicemail1.com clixser.com clrmail.com coldemail.info consumerriot.com
contbay.com cool.fr.nf correo.blogos.net cosmorph.com courriel.fr.nf courrieltemporaire.com crapmail.org
crazymailing.com cubiclink.com curryworld.de cust.in cuvox.de d3p.dk dacoolest.com damnthespam.com dandikmail.com
dayrep.com dbunker.com dcemail.com deadaddress.com deadspam.com deagot.com dealja.com delikkt.de despam.it
despammed.com devnullmail.com dfgh.net digitalsanctuary.com dingbone.com discard.email discardmail.com discardmail.de
dispomail.eu disposable.cf disposable.ga disposable.ml disposableaddress.com disposableemailaddresses.com
disposableinbox.com dispose.it disposeamail.com disposemail.com dispostable.com dodgeit.com dodgit.com dodgit.org
dodsi.com doiea.com donemail.ru dontreg.com dontsendmespam.de dotmsg.com dpptd.com drdrb.com drdrb.net dropcake.de
dropjar.com droplar.com dropmail.me dspwebservices.com dudmail.com dump-email.info dumpandjunk.com dumpmail.de
dumpyemail.com duskmail.com easytrashmail.com eelmail.com einmalmail.de einrot.com einrot.de eintagsmail.de
email60.com emailfake.com emailfreedom.ml emailgo.de emailias.com emailigo.de emailinfive.com emaillime.com
emailmiser.com emailna.co emailnator.com emailondeck.com emailproxsy.com emailsensei.com emailtemporanea.com
emailtemporanea.net emailtemporar.ro emailtemporario.com.br emailthe.net emailtmp.com emailwarden.com emailx.at.hm
emailxfer.com emeil.in emeil.ir emeraldwebmail.com eml.pp.ua emlhub.com emlpro.com emltmp.com emz.net enterto.com
ephemail.net ero-tube.org esiix.com etranquil.com etranquil.net etranquil.org evopo.com explodemail.com express.net.ua
eyepaste.com ezztt.com fakeinbox.cf fakeinbox.com fakeinbox.info fakeinformation.com fakemail.fr fakemailgenerator.com
fakemailz.com fakermail.com fammix.com fansworldwide.de fantasymail.de fastacura.com fastchevy.com fastchrysler.com
fastkawasaki.com fastmazda.com fastmitsubishi.com fastnissan.com fastsubaru.com fastsuzuki.com fasttoyota.com
fastyamaha.com fatflap.com fdfdsfds.com fexbox.org fexpost.com fextemp.com fightallspam.com figjs.com fivemail.de
fixmail.tk fizmail.com fleckens.hu flemail.ru flurre.com flurred.com flyspam.com footard.com forgetmail.com
fr33mail.info frapmail.com freeml.net freundin.ru friendlymail.co.uk front14.org fuckingduh.com fudgerub.com
fux0ringduh.com fyii.de garliclife.com gehensiemirnichtaufdensack.de generator.email get1mail.com get2mail.fr
getairmail.cf getairmail.com getairmail.ga getairmail.gq getairmail.ml getmails.eu getnada.cc getnada.com
getonemail.com getonemail.net ghosttexter.de giantmail.de girlsundertheinfluence.com gishpuppy.com givmail.com
goemailgo.com gorillaswithdirtyarmpits.com gotmail.net gotmail.org gowikibooks.com great-host.in greensloth.com grr.la
gsrv.co.uk guerillamail.biz guerillamail.com guerillamail.info guerillamail.net guerillamail.org guerrillamail.biz
guerrillamail.com guerrillamail.de guerrillamail.info guerrillamail.net guerrillamail.org guerrillamailblock.com
gufum.com gustr.com h8s.org haltospam.com harakirimail.com hartbot.de hat-geld.de hatespam.org herp.in hidemail.de
hidzz.com hmamail.com hochsitze.com hopemail.biz hulapla.de icznn.com ieatspam.eu ieatspam.info ieh-mail.de
ihateyoualot.info iheartspam.org ikbenspamvrij.nl imails.info inbax.tk inbox.si inboxalias.com inboxbear.com
inboxclean.com inboxclean.org inboxkitten.com inboxproxy.com incognitomail.com incognitomail.net incognitomail.org
infocom.zp.ua insorg-mail.info instant-mail.de instantemailaddress.com ipoo.org irish2me.com jetable.com jetable.fr.nf
jetable.net jetable.org jnxjn.com jourrapide.com jsrsolutions.com junk1e.com junkmail.ga kasmail.com kaspop.com
keepmymail.com killmail.com killmail.net kir.ch.tc klassmaster.com klassmaster.net klzlk.com koszmail.pl
kulturbetrieb.info kurzepost.de l33r.eu laafd.com lackmail.net lags.us landmail.co laste.ml lastmail.co lawlita.com
lazyinbox.com letthemeatspam.com lhsdv.com lifebyfood.com link2mail.net linshiyou.com linshiyouxiang.net litedrop.com
loadby.us login-email.cf lol.ovpn.to lookugly.com lopl.co.cc lortemail.dk lovemeleaveme.com lr78.com lroid.com
lukop.dk luxusmail.org luxusmail.xyz m21.cc m4ilweb.info maboard.com mail-filter.com mail-temp.com mail-temporaire.fr
mail.mezimages.net mail.tm mail114.net mail1a.de mail21.cc mail2rss.org mail4trash.com mail7.io mailbidon.com
mailbiz.biz mailblocks.com mailbucket.org mailcat.biz mailcatch.com mailde.info maildrop.cc maildrop.cf maildu.de
maildx.com maileater.com mailed.ro maileimer.de mailexpire.com mailfa.tk mailforspam.com mailfree.ga
mailfreeonline.com mailfs.com mailguard.me mailhazard.com mailhazard.us mailhz.me mailimate.com mailin8r.com
mailinater.com mailinator.com mailinator.net mailinator.org mailinator.us mailinator2.com mailincubator.com
mailismagic.com mailjunk.cf mailme.gq mailme.ir mailme.lv mailme24.com mailmetrash.com mailmoat.com mailms.com
mailna.biz mailna.co mailna.in mailna.me mailnator.com mailnesia.com mailnull.com mailonaut.com mailorc.com
mailorg.org mailpick.biz mailpoof.com mailproxsy.com mailquack.com mailrock.biz mailsac.com mailscrap.com mailseal.de
mailshell.com mailsiphon.com mailslapping.com mailslite.com mailtemp.info mailtemporaire.com mailtemporaire.fr
mailto.plus mailtome.de mailtothis.com mailtrash.net mailtv.net mailtv.tv mailzi.ru mailzilla.com mailzilla.org
makemetheking.com manybrain.com mbx.cc mega.zik.dj meinspamschutz.de meltmail.com merepost.com messagebeamer.de
mezimages.net mierdamail.com mimimail.me mintemail.com misterpinball.de moakt.cc moakt.co moakt.com moakt.ws
moburl.com mohmal.com mohmal.im mohmal.in mohmal.tech moncourrier.fr.nf monemail.fr.nf monmail.fr.nf monumentmail.com
mt2009.com mt2014.com mt2015.com muell.email muellmail.com mvrht.com mvrht.net my10minutemail.com mycleaninbox.net
mymail-in.net mymailoasis.com mynetstore.de mypacks.net mypartyclip.de myphantomemail.com mysamp.de myspaceinc.com
myspaceinc.net myspacepimpedup.com myspamless.com mytemp.email mytempemail.com mytempmail.com mytrashmail.com
nabuma.com nada.email nada.ltd nepwk.com nervmich.net nervtmich.net netmails.com netmails.net netzidiot.de
neverbox.com nice-4u.com nincsmail.com nincsmail.hu nnh.com no-spam.ws nobulk.com noclickemail.com nogmailspam.info
nomail.xl.cx nomail2me.com nomorespamemails.com nospam.ze.tc nospam4.us nospamfor.us nospammail.net nospamthanks.info
notmailinator.com nowhere.org nowmymail.com nurfuerspam.de nwldx.com objectmail.com obobbo.com odaymail.com
odnorazovoe.ru one-time.email oneoffemail.com oneoffmail.com onewaymail.com onlatedotcom.info oopi.org
ordinaryamerican.net otherinbox.com ourklips.com outlawspam.com ovpn.to owlpic.com pancakemail.com paplease.com
pepbot.com pfui.ru pimpedupmyspace.com pjjkp.com plexolan.de pokemail.net politikerclub.de poofy.org pookmail.com
privacy.net privatdemail.net privy-mail.com privymail.de proxymail.eu prtnx.com prtz.eu punkass.com
putthisinyourspamdatabase.com pwrby.com quickinbox.com rcpt.at reallymymail.com realtyalerts.ca recode.me recursor.net
recyclemail.dk regbypass.com regspaces.tk reliable-mail.com rhyta.com rklips.com rmqkr.net robot-mail.com rover.info
rppkn.com rteet.com rtrtr.com s0ny.net safersignup.de safetymail.info safetypost.de sandelf.de saynotospams.com
schafmail.de schrott-email.de secretemail.de selfdestructingmail.com selfdestructingmail.org sendspamhere.com
senseless-entertainment.com sharklasers.com shieldedmail.com shieldemail.com shiftmail.com shitmail.de shitmail.me
shitmail.org shitware.nl shmeriously.com shortmail.net shut.name shut.ws sinnlos-mail.de siteposter.net skeefmail.com
slaskpost.se slave-auctions.net slopsbox.com slushmail.com smailpro.com smashmail.de smellfear.com smellrear.com
snakemail.com snapmail.cc sneakmail.de snkmail.com sofimail.com sofort-mail.de softpls.asia sogetthis.com
soodonims.com spam.la spam.su spam4.me spamail.de spamavert.com spambob.com spambob.net spambob.org spambog.com
spambog.de spambog.net spambog.ru spambooger.com spambox.info spambox.us spambox.xyz spamcannon.com spamcannon.net
spamcero.com spamcon.org spamcorptastic.com spamcowboy.com spamcowboy.net spamcowboy.org spamday.com spamdecoy.net
spamex.com spamfighter.cf spamfree.eu spamfree24.com spamfree24.de spamfree24.eu spamfree24.info spamfree24.net
spamfree24.org spamgoes.in spamgourmet.com spamgourmet.net spamgourmet.org spamherelots.com spamhereplease.com
spamhole.com spamify.com spaminator.de spamkill.info spaml.com spaml.de spammotel.com spamobox.com spamoff.de
spamsalad.in spamslicer.com spamspot.com spamstack.net spamthis.co.uk spamthisplease.com spamtrail.com spamtroll.net
speed.1s.fr spoofmail.de spymail.one squizzy.de squizzy.eu squizzy.net sraka.xyz startkeys.com stinkefinger.net
stop-my-spam.com streetwisemail.com stuffmail.de super-auswahl.de supergreatmail.com supermailer.jp superrito.com
superstachel.de suremail.info svk.jp sweetxxx.de tafmail.com tagyourself.com talkinator.com teewars.org teleosaurs.xyz
teleworm.com teleworm.us temp-mail.com temp-mail.de temp-mail.io temp-mail.org temp-mail.ru temp-mails.com tempail.com
tempalias.com tempe-mail.com tempemail.biz tempemail.co.za tempemail.com tempemail.net tempinbox.co.uk tempinbox.com
tempmail.co tempmail.de tempmail.dev tempmail.eu tempmail.it tempmail.net tempmail.plus tempmail.us tempmail.ws
tempmail2.com tempmailaddress.com tempmaildemo.com tempmailer.com tempmailer.de tempmailo.com tempomail.fr
temporarily.de temporarioemail.com.br temporaryemail.net temporaryemail.us temporaryforwarding.com temporaryinbox.com
temporarymailaddress.com tempr.email tempsky.com tempthe.net tempymail.com thanksnospam.info thankyou2010.com thc.st
thelimestones.com thisisnotmyrealemail.com thismail.net throwam.com throwawayemailaddress.com throwawaymail.com
tilien.com tittbit.in tizi.com tmail.ws tmailinator.com tmails.net tmpeml.com tmpmail.net tmpmail.org toiea.com
toomail.biz topranklist.de tradermail.info trash-amil.com trash-mail.at trash-mail.cf trash-mail.com trash-mail.de
trash-mail.ga trash-mail.gq trash-mail.ml trash-mail.tk trash2009.com trash2010.com trash2011.com trashcanmail.com
trashdevil.com trashdevil.de trashemail.de trashinbox.com trashmail.at trashmail.com trashmail.de trashmail.io
trashmail.me trashmail.net trashmail.org trashmail.ws trashmailer.com trashymail.com trashymail.net trayna.com
trbvm.com trickmail.net trillianpro.com tryalert.com turual.com twinmail.de twoweirdtricks.com txcct.com tyldd.com
uggsrock.com upliftnow.com uplipht.com uroid.com venompen.com veryrealemail.com vidchart.com viditag.com
viewcastmedia.com viewcastmedia.net viewcastmedia.org viralplays.com vjuum.com vomoto.com vpn.st vsimcard.com
vubby.com vusra.com walala.org walkmail.net wasteland.rfc822.org watch-harry-potter.com watchfull.net webemail.me
webm4il.info webuser.in wegwerfadresse.de wegwerfemail.com wegwerfemail.de wegwerfmail.de wegwerfmail.info
wegwerfmail.net wegwerfmail.org wegwerpmailadres.nl wetrainbayarea.com wh4f.org whatiaas.com whatpaas.com whatsaas.com
whopy.com whyspam.me wilemail.com willhackforfood.biz willselfdestruct.com winemaven.info wronghead.com wuzup.net
wuzupmail.net wwjmp.com wwwnew.eu x.ip6.li xagloo.com xemaps.com xents.com xmaily.com xojxe.com xoxy.net yapped.net
yep.it yogamaven.com yoggm.com yomail.info yopmail.com yopmail.fr yopmail.gq yopmail.net yopmail.pp.ua youmailr.com
ypmail.webarnak.fr.eu.org yuurok.com z1p.biz zehnminuten.de zehnminutenmail.de zetmail.com zippymail.info zoaxe.com
zoemail.com zoemail.net zoemail.org zomg.info zxcv.com zxcvbnm.com
`

// families are further such services: sites with several hosts in the labelled addresses, all of them disposable.
// plugins/internal/train/email writes them, in wordlist form.
//
//go:embed families.txt
var families string

// service returns the disposable service that equals host or is a parent of it, or "".
func service(host string) string {
	if found := mail.Listed(disposables, host); found != "" {
		return found
	}
	return mail.Listed(families, host)
}
