package entity

import "strings"

// aliasDomains maps a mail domain to the provider's main domain for the same mailboxes, as in MaxMind's "Normalizing
// Email Addresses for minFraud". Domains that only share a provider are not aliases: the same name at me.com and
// icloud.com, or at gmx.de and gmx.net, can belong to different people.
var aliasDomains = map[string]string{
	"googlemail.com": "gmail.com",
	"pm.me":          "protonmail.com",
	"proton.me":      "protonmail.com",
	"ya.ru":          "yandex.ru",
	"yandex.by":      "yandex.ru",
	"yandex.com":     "yandex.ru",
	"yandex.kz":      "yandex.ru",
	"yandex.ua":      "yandex.ru",
}

// providers maps the mail domains of large mailbox providers to the provider's name, the value of email.provider.
var providers = byDomain(map[string]string{
	"google": "gmail.com googlemail.com",
	"microsoft": "" +
		"outlook.com hotmail.com live.com msn.com passport.com windowslive.com outlook.at outlook.be outlook.cl " +
		"outlook.co.id outlook.co.il outlook.co.th outlook.com.ar outlook.com.au outlook.com.br outlook.com.gr " +
		"outlook.com.pe outlook.com.tr outlook.com.vn outlook.cz outlook.de outlook.dk outlook.es outlook.fr " +
		"outlook.hu outlook.ie outlook.in outlook.it outlook.jp outlook.kr outlook.lv outlook.my outlook.ph " +
		"outlook.pt outlook.sa outlook.sg outlook.sk hotmail.at hotmail.be hotmail.ca hotmail.ch hotmail.cl " +
		"hotmail.co.id hotmail.co.il hotmail.co.jp hotmail.co.kr hotmail.co.nz hotmail.co.th hotmail.co.uk " +
		"hotmail.co.za hotmail.com.ar hotmail.com.au hotmail.com.br hotmail.com.hk hotmail.com.mx hotmail.com.tr " +
		"hotmail.com.tw hotmail.cz hotmail.de hotmail.dk hotmail.es hotmail.fi hotmail.fr hotmail.gr hotmail.hu " +
		"hotmail.it hotmail.lt hotmail.lv hotmail.my hotmail.nl hotmail.no hotmail.ph hotmail.rs hotmail.se " +
		"hotmail.sg hotmail.sk live.at live.be live.ca live.ch live.cl live.cn live.co.uk live.co.za live.com.ar " +
		"live.com.au live.com.mx live.com.my live.com.pt live.com.sg live.de live.dk live.fi live.fr live.hk " +
		"live.ie live.in live.it live.jp live.nl live.no live.ru live.se",
	"yahoo": "yahoo.com ymail.com rocketmail.com myyahoo.com y7mail.com yahoo.at yahoo.be yahoo.bg yahoo.ca yahoo.cl " +
		"yahoo.co.id yahoo.co.il yahoo.co.in yahoo.co.jp yahoo.co.kr yahoo.co.nz yahoo.co.th yahoo.co.uk yahoo.co.za " +
		"yahoo.com.ar yahoo.com.au yahoo.com.br yahoo.com.co yahoo.com.hk yahoo.com.hr yahoo.com.mx yahoo.com.my " +
		"yahoo.com.pe yahoo.com.ph yahoo.com.sg yahoo.com.tr yahoo.com.tw yahoo.com.ua yahoo.com.ve yahoo.com.vn " +
		"yahoo.cz yahoo.de yahoo.dk yahoo.ee yahoo.es yahoo.fi yahoo.fr yahoo.gr yahoo.hu yahoo.ie yahoo.in yahoo.it " +
		"yahoo.lt yahoo.lv yahoo.nl yahoo.no yahoo.pl yahoo.pt yahoo.ro yahoo.se yahoo.sk",
	"apple":  "icloud.com me.com mac.com privaterelay.appleid.com",
	"proton": "protonmail.com proton.me pm.me protonmail.ch",
	"fastmail": "" +
		"fastmail.com 123mail.org 150mail.com 150ml.com 16mail.com 2-mail.com 4email.net 50mail.com airpost.net " +
		"allmail.net bestmail.us cluemail.com elitemail.org emailcorner.net emailengine.net emailengine.org " +
		"emailgroups.net emailplus.org emailuser.net eml.cc f-m.fm fast-email.com fast-mail.org fastem.com " +
		"fastemail.us fastemailer.com fastest.cc fastimap.com fastmail.ca fastmail.cn fastmail.co.uk " +
		"fastmail.com.au fastmail.de fastmail.es fastmail.fm fastmail.fr fastmail.im fastmail.in fastmail.jp " +
		"fastmail.mx fastmail.net fastmail.nl fastmail.org fastmail.se fastmail.to fastmail.tw fastmail.uk " +
		"fastmail.us fastmailbox.net fastmessaging.com fea.st fmail.co.uk fmailbox.com fmgirl.com fmguy.com " +
		"ftml.net h-mail.us hailmail.net imap-mail.com imap.cc imapmail.org inoutbox.com internet-e-mail.com " +
		"internet-mail.org internetemails.net internetmailing.net jetemail.net justemail.net letterboxes.org " +
		"mail-central.com mail-page.com mailandftp.com mailas.com mailbolt.com mailc.net mailcan.com mailforce.net " +
		"mailftp.com mailhaven.com mailingaddress.org mailite.com mailmight.com mailnew.com mailsent.net " +
		"mailservice.ms mailup.net mailworks.org ml1.net mm.st myfastmail.com mymacmail.com nospammail.net " +
		"ownmail.net petml.com postinbox.com postpro.net proinbox.com promessage.com realemail.net reallyfast.biz " +
		"reallyfast.info rushpost.com sent.as sent.at sent.com speedpost.net speedymail.org ssl-mail.com " +
		"swift-mail.com the-fastest.net the-quickest.com theinternetemail.com veryfast.biz veryspeedy.net " +
		"warpmail.net xsmail.com yepmail.net your-mail.com",
	"gmx":       "gmx.net gmx.de gmx.at gmx.ch gmx.com gmx.co.uk gmx.es gmx.eu gmx.fr gmx.info gmx.org gmx.us",
	"webde":     "web.de email.de",
	"telekom":   "t-online.de magenta.de",
	"freenet":   "freenet.de",
	"ionos":     "online.de",
	"mailcom":   "mail.com",
	"mailbox":   "mailbox.org",
	"posteo":    "posteo.de posteo.net",
	"mailru":    "mail.ru bk.ru inbox.ru list.ru internet.ru xmail.ru",
	"yandex":    "yandex.ru yandex.com yandex.by yandex.kz yandex.ua ya.ru narod.ru",
	"rambler":   "rambler.ru lenta.ru ro.ru",
	"ukrnet":    "ukr.net",
	"zoho":      "zoho.com zoho.eu zoho.in zohomail.com zohomail.eu zohomail.in",
	"tutanota":  "tutanota.com tutanota.de tuta.com tuta.io tutamail.com keemail.me",
	"aol":       "aol.com aol.co.uk aol.de aol.fr aol.it aim.com",
	"qq":        "qq.com vip.qq.com foxmail.com",
	"netease":   "163.com 126.com yeah.net",
	"sina":      "sina.com sina.cn",
	"alibaba":   "aliyun.com",
	"naver":     "naver.com",
	"kakao":     "daum.net hanmail.net kakao.com",
	"rediff":    "rediffmail.com",
	"orange_fr": "orange.fr wanadoo.fr",
	"free_fr":   "free.fr",
	"sfr":       "sfr.fr neuf.fr club-internet.fr",
	"laposte":   "laposte.net",
	"bouygues":  "bbox.fr",
	"libero":    "libero.it inwind.it iol.it blu.it",
	"tim":       "tim.it alice.it",
	"virgilio":  "virgilio.it",
	"tiscali":   "tiscali.it",
	"wp":        "wp.pl",
	"o2_pl":     "o2.pl tlen.pl",
	"onet":      "onet.pl onet.eu op.pl poczta.onet.pl vp.pl",
	"interia":   "interia.pl interia.eu poczta.fm",
	"gazeta":    "gazeta.pl",
	"seznam":    "seznam.cz email.cz post.cz",
	"centrum":   "centrum.cz centrum.sk atlas.cz",
	"azet":      "azet.sk",
	"zoznam":    "zoznam.sk",
	"freemail":  "freemail.hu",
	"citromail": "citromail.hu",
	"abv":       "abv.bg",
	"sapo":      "sapo.pt",
	"telenet":   "telenet.be",
	"proximus":  "skynet.be proximus.be",
	"kpn":       "kpnmail.nl hetnet.nl planet.nl kpnplanet.nl",
	"ziggo":     "ziggo.nl home.nl chello.nl casema.nl",
	"bluewin":   "bluewin.ch",
	"bt":        "btinternet.com btopenworld.com",
	"sky":       "sky.com",
	"virgin":    "virginmedia.com ntlworld.com blueyonder.co.uk",
	"talktalk":  "talktalk.net",
	"comcast":   "comcast.net",
	"att":       "att.net sbcglobal.net bellsouth.net",
	"verizon":   "verizon.net",
	"uol":       "uol.com.br bol.com.br",
	"terra":     "terra.com.br",
})

func byDomain(listed map[string]string) map[string]string {
	domains := make(map[string]string)
	for provider, list := range listed {
		for _, domain := range strings.Fields(list) {
			domains[domain] = provider
		}
	}
	return domains
}
