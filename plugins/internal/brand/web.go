package brand

// webBrands are email and office services, social networks, shops, streaming services, games, web hosts and device
// makers.
var webBrands = [...]Brand{
	{"google", "Google", Coined | Desk, `google.** google.ac google.ad google.am google.as google.az google.bf
		google.bi google.bj google.bs
		google.bt google.cat google.cd google.cf google.cg google.ci google.cm google.cv google.dj google.dm google.fm
		google.ga google.ge google.gg google.gl google.gm google.gp google.gy google.ht google.im google.je google.ki
		google.la google.li google.me google.mg google.mk google.ml google.mn google.ms google.mu google.mv google.mw
		google.ne google.nr google.nu google.pn google.sc google.sh google.sm google.so google.sr google.st google.td
		google.tg google.tk google.tl google.tm google.to google.tt google.vg google.vu google.ws
		google.co google.dev google-analytics.com
		googleapis.com googlevideo.com
		googleusercontent.com googletagmanager.com googlesyndication.com googleadservices.com
		googletagservices.com googlemail.com googlesource.com googleblog.com googlecode.com googleearth.com
		googlegroups.com googlestore.com googleplay.com googleweblight.com googledomains.com googlefiber.net
		googleapps.com googlezip.net googlecnapps.cn googlehosted.com googlecloud.com googlepages.com
		googleanalytics.com googleoptimize.com googlesciencefair.com googlephotos.com googleadsserving.cn
		googlebot.com googledrive.com googlecommerce.com googlemaps.com googleplus.com googl.com
		youtubei.googleapis.com`},
	{"gmail", "Gmail", Coined | DeskAlone, "gmail.com google.com gmail.*"},
	{"youtube", "YouTube", Coined | Desk, `youtube.** youtube.ge youtube.mk youtube.me youtube.com.mk youtube.ly
		youtube.tv youtubeeducation.com youtube-nocookie.com youtubekids.com
		youtubego.com youtubegaming.com youtubemobilesupport.com`},
	{"microsoft", "Microsoft", Coined | Desk, `microsoft.* microsoftonline.com microsoftonline-p.com
		microsoftstream.com microsoftstore.com microsoftazuread-sso.com microsoftinternetsafety.net
		microsoftedge.com microsofttranslator.com microsoftpersonalcontent.com microsoftcloud.com
		microsoft365.com s-microsoft.com microsoftusercontent.com microsoftedgeinsider.com microsoft-int.com`},
	{"office365", "Microsoft 365", Coined | Desk, "office365.com office365.us office.com"},
	{"outlook", "Outlook", Word | DeskAlone, "outlook.* outlookmobile.com"},
	{"hotmail", "Hotmail", Coined, "hotmail.*"},
	{"onedrive", "OneDrive", Coined | Desk, "onedrive.* onedrive.live.com"},
	{"sharepoint", "SharePoint", Coined, "sharepoint.* sharepointonline.com sharepoint-df.com"},
	{"windows", "Windows", Word | DeskAlone, "windows.com windows.net windowsupdate.com windowsphone.com"},
	{"skype", "Skype", Coined, "skype.* skypeassets.com skypeforbusiness.com"},
	{"xbox", "Xbox", Short, "xbox.* xboxlive.com xboxservices.com xboxgamepass.com"},
	{"bing", "Bing", Short, "bing.* bing.net"},
	{"linkedin", "LinkedIn", Coined | Desk, "linkedin.* linkedin-ei.com linkedinlearning.com"},
	{"github", "GitHub", Coined, `github.com github.io github.dev github.ai githubassets.com githubusercontent.com
		githubapp.com
		githubcopilot.com githubstatus.com github.blog github.community`},
	{"gitlab", "GitLab", Word, "gitlab.*"},
	{"apple", "Apple", Word | DeskAlone, `apple.* apple-dns.net apple-mapkit.com apple-cloudkit.com
		apple-livephotoskit.com applepay.com appleid.com applemusic.com applecard.com`},
	{"appleid", "Apple ID", Coined, "appleid.com apple.com"},
	{"icloud", "iCloud", Coined | Desk, "icloud.* icloud-content.com"},
	{"itunes", "iTunes", Coined | Desk, "itunes.*"},
	{"iphone", "iPhone", Coined, "iphone.*"},
	{"amazon", "Amazon", Coined | Desk, `amazon.* amazon.dev amazon.jobs amazon.science amazonaws.com
		amazon-adsystem.com amazonaws.com.cn amazonpay.com
		amazontrust.com amazonalexa.com amazonvideo.com amazonmusic.com amazonbusiness.com amazon-corp.com
		amazonses.com amazonwebservices.com amazonaws-china.com amazonbrowserapp.com amazonstudios.com
		amazon-dss.com amazonfctours.com amazoncognito.com amazonprimevideo.cn amazonsdi.com
		amazonworkspaces.com amazongames.com`},
	{"primevideo", "Prime Video", Coined, "primevideo.* amazonvideo.com"},
	{"amazonprime", "Amazon Prime", Coined, "amazon.com primevideo.com"},
	{"facebook", "Facebook", Coined | Desk, `facebook.* facebookcorewwwi.onion facebookmail.com
		facebook-hardware.com facebookblueprint.com facebookbrand.com facebook-studio.com facebookconnect.com
		facebookstories.com facebookdevelopers.com facebook.design fb.com`},
	{"instagram", "Instagram", Coined | Desk, `instagram.* instagram-brand.com instagram-engineering.com
		instagram-press.com cdninstagram.com instagramenglish.com`},
	{"whatsapp", "WhatsApp", Coined | Desk, "whatsapp.* whatsappbrand.com whatsapp-plus.info whatsapp-plus.net"},
	{"messenger", "Messenger", Word, "messenger.com m.me"},
	{"telegram", "Telegram", Word | Desk, "telegram.* telegram-cdn.org telegra.ph t.me"},
	{"snapchat", "Snapchat", Coined | Desk, "snapchat.*"},
	{"tiktok", "TikTok", Coined | Desk, `tiktok.* tiktokv.com tiktokcdn.com tiktokcdn-us.com tiktokv.us
		tiktokglobalshop.com tiktokcdn-eu.com tiktokw.us tiktokrow-cdn.com tiktokshop.com tiktokd.org
		tiktokd.net tiktoktime.com tiktokv.eu`},
	{"twitter", "Twitter", Coined | Desk, `twitter.* twitterflightschool.com twitterinc.com twitteroauth.com
		twitterstat.us twittercommunity.com`},
	{"pinterest", "Pinterest", Coined, "pinterest.* pinterestmail.com"},
	{"reddit", "Reddit", Coined, `reddit.* redditstatic.com redditmedia.com redditinc.com redditmail.com
		redditspace.com redditblog.com`},
	{"tumblr", "Tumblr", Coined, "tumblr.*"},
	{"discord", "Discord", Coined | DeskAlone, `discord.com discord.gg discord.co discordapp.com discordapp.net
		discordcdn.com discordmerch.com
		discordstatus.com discordpartygames.com discord-activities.com discordactivities.com discordsays.com
		discordquests.com discord.design discord.dev discord.gift discord.gifts discord.media discord.new
		discord.tools`},
	{"hypesquad", "Discord HypeSquad", Coined, "discord.com"},
	{"vkontakte", "VK", Coined, "vkontakte.ru vk.com"},
	{"tinder", "Tinder", Word, "tinder.*"},
	{"badoo", "Badoo", Coined, "badoo.* badoocdn.com"},
	{"yahoo", "Yahoo", Coined | DeskAlone, `yahoo.** yahooapis.com yahoodns.net yahooinc.com yahoo-email.com
		yahoosmallbusiness.com yahoosandbox.com`},
	{"protonmail", "Proton Mail", Coined, "protonmail.* proton.me protonmail.ch"},
	{"webde", "WEB.DE", Word, "web.de"},
	{"gmx", "GMX", Short, "gmx.* gmx-*.*"},
	{"libero", "Libero", Word, "libero.it"},
	{"zimbra", "Zimbra", Word, "zimbra.* zimbra.com"},
	{"roundcube", "Roundcube", Word, "roundcube.*"},
	{"docusign", "DocuSign", Coined | Desk, "docusign.* docusign-*.*"},
	{"dropbox", "Dropbox", Coined | Desk, `dropbox.* dropboxusercontent.com dropboxapi.com dropbox-dns.com
		dropboxstatic.com dropboxforum.com dropboxpartners.com dropboxbusiness.com`},
	{"wetransfer", "WeTransfer", Coined, "wetransfer.* wetransfer.net"},
	{"adobe", "Adobe", Coined | DeskAlone, `adobe.* adobe-*.* adobedtm.com adobelogin.com adobess.com adobecc.com
		adobeaemcloud.com adobesign.com adobesigncdn.com adobeexchange.com adobeconnect.com adobesc.com
		adobemagazine.com adobeoobe.com`},
	{"zoom", "Zoom", Short, "zoom.* zoomgov.com zoomcares.org"},
	{"slack", "Slack", Word, "slack.*"},
	{"salesforce", "Salesforce", Coined, `salesforce.* salesforce-*.com salesforceliveagent.com
		salesforcemarketingcloud.com salesforceiq.com salesforce-sites.com`},
	{"atlassian", "Atlassian", Coined, "atlassian.*"},
	{"godaddy", "GoDaddy", Coined, "godaddy.* godaddysites.com"},
	{"cloudflare", "Cloudflare", Coined, `cloudflare.* cloudflare-dns.com cloudflareinsights.com
		cloudflarestatus.com cloudflarestream.com cloudflarestorage.com cloudflareaccess.com
		cloudflare-ipfs.com cloudflareapps.com cloudflareclient.com cloudflarestatic.com
		cloudflarepartners.com cloudflare-gateway.com cloudflare.dev`},
	{"ionos", "IONOS", Coined, "ionos.* ionos.space"},
	{"strato", "STRATO", Word, "strato.*"},
	{"ovhcloud", "OVHcloud", Coined, "ovhcloud.* ovh.com"},
	{"namecheap", "Namecheap", Coined, "namecheap.*"},
	{"wordpress", "WordPress", Word, "wordpress.* wordpress.org"},
	{"norton", "Norton", Word | DeskAlone, "norton.*"},
	{"nortonlifelock", "NortonLifeLock", Coined, "nortonlifelock.*"},
	{"mcafee", "McAfee", Coined | DeskAlone, "mcafee.* mcafeesecure.com mcafeewebadvisor.com mcafeemobilesecurity.com"},
	{"kaspersky", "Kaspersky", Coined, "kaspersky.* kaspersky-labs.com kasperskylab.*"},
	{"malwarebytes", "Malwarebytes", Coined, "malwarebytes.*"},
	{"bitdefender", "Bitdefender", Coined, "bitdefender.*"},
	{"symantec", "Symantec", Coined, "symantec.* symantecliveupdate.com"},
	{"avast", "Avast", Coined, "avast.* avastbrowser.com"},
	{"nordvpn", "NordVPN", Coined, "nordvpn.*"},
	{"expressvpn", "ExpressVPN", Coined, "expressvpn.*"},
	{"lastpass", "LastPass", Coined, "lastpass.*"},
	{"chatgpt", "ChatGPT", Coined, "chatgpt.com openai.com"},
	{"openai", "OpenAI", Coined, "openai.*"},
	{"deepseek", "DeepSeek", Coined, "deepseek.com"},
	{"netflix", "Netflix", Coined | Desk, `netflix.* netflixinvestor.com netflixstudios.com netflixdnstest1.com
		netflix.github.io netflixtechblog.com netflixhouse.com netflixpartners.com`},
	{"disneyplus", "Disney+", Coined | Desk, "disneyplus.* disney-plus.net disney.com"},
	{"disney", "Disney", Coined, `disney.* disneyplus.com disneyland.* disneyworld.* disneystore.*
		disneylandparis.* disneyinternational.com disneyparks.* disneycruise.* disneycareers.com`},
	{"spotify", "Spotify", Coined | Desk, `spotify.* spotifycdn.com spotifyforbrands.com spotifyjobs.com
		spotifycodes.com spotify-com.akamaized.net`},
	{"deezer", "Deezer", Coined, "deezer.*"},
	{"soundcloud", "SoundCloud", Coined, "soundcloud.*"},
	{"twitch", "Twitch", Coined, "twitch.* twitch.tv twitchcdn.net twitchsvc.net twitchcon.com"},
	{"dailymotion", "Dailymotion", Coined, "dailymotion.*"},
	{"hbomax", "HBO Max", Coined, "hbomax.*"},
	{"paramountplus", "Paramount+", Coined, "paramountplus.*"},
	{"crunchyroll", "Crunchyroll", Coined, "crunchyroll.*"},
	{"steamcommunity", "Steam", Coined, "steamcommunity.com"},
	{"steampowered", "Steam", Coined, "steampowered.com"},
	{"steam", "Steam", Word | DeskAlone, `steampowered.com steamcommunity.com steamcontent.com steamstatic.com
		steamgames.com steamserver.net steam-chat.com steamusercontent.com steamstat.us`},
	{"epicgames", "Epic Games", Coined | Desk, "epicgames.* epicgames.dev"},
	{"fortnite", "Fortnite", Coined, "fortnite.com"},
	{"roblox", "Roblox", Coined | Desk, "roblox.* robloxlabs.com robloxcdn.com robloxdev.com"},
	{"minecraft", "Minecraft", Coined, `minecraft.* minecraftservices.com minecraftforum.net
		minecraft-services.net minecraft.wiki`},
	{"playstation", "PlayStation", Coined | Desk, "playstation.* playstation.net"},
	{"nintendo", "Nintendo", Coined, "nintendo.* nintendoswitch.com nintendo-europe.com"},
	{"battlenet", "Battle.net", Coined, "battle.net battlenet.com.cn"},
	{"blizzard", "Blizzard", Word, "blizzard.*"},
	{"riotgames", "Riot Games", Coined, "riotgames.*"},
	{"leagueoflegends", "League of Legends", Coined, "leagueoflegends.*"},
	{"counterstrike", "Counter-Strike", Coined, "counter-strike.net"},
	{"faceit", "FACEIT", Coined, "faceit.com faceit-cdn.net"},
	{"opskins", "OPSkins", Coined, "opskins.com"},
	{"ubisoft", "Ubisoft", Coined, "ubisoft.* ubisoftconnect.com"},
	{"bet365", "bet365", Coined, "bet365.* bet365affiliates.com"},
	{"winamax", "Winamax", Coined, "winamax.*"},
	{"betclic", "Betclic", Coined, "betclic.*"},
	{"ebay", "eBay", Short | DeskAlone, "ebay.* ebaystatic.com ebayimg.com ebay-kleinanzeigen.de"},
	{"kleinanzeigen", "Kleinanzeigen", Coined, "kleinanzeigen.* ebay-kleinanzeigen.de *kleinanzeigen.*"},
	{"alibaba", "Alibaba", Coined | DeskAlone, `alibaba.* alibabacloud.com alibabagroup.com alibabadns.com
		alibabausercontent.com alibaba-inc.com`},
	{"aliexpress", "AliExpress", Coined | Desk, "aliexpress.* aliexpress-media.com"},
	{"taobao", "Taobao", Coined, "taobao.*"},
	{"shopee", "Shopee", Coined, "shopee.* shopeemobile.com shopeepay.*"},
	{"lazada", "Lazada", Coined, "lazada.*"},
	{"temu", "Temu", Short, "temu.*"},
	{"shein", "SHEIN", Coined, "shein.* sheingroup.com"},
	{"zalando", "Zalando", Coined | Desk, "zalando.* zalando-*.*"},
	{"allegro", "Allegro", Word | DeskAlone, `allegro.pl allegro.cz allegro.sk allegro.eu allegro.hu allegro.tech
		allegrogroup.com allegrostatic.com allegrosandbox.pl`},
	{"allegrolokalnie", "Allegro Lokalnie", Coined, "allegrolokalnie.pl"},
	{"vinted", "Vinted", Coined | Desk, "vinted.*"},
	{"leboncoin", "leboncoin", Coined | Desk, "leboncoin.fr leboncoin.io"},
	{"olx", "OLX", Short, "olx.* olx.com.br olx.ua olx.uz olx.kz olxgroup.com"},
	{"wallapop", "Wallapop", Coined | Desk, "wallapop.*"},
	{"subito", "Subito", Word, "subito.it"},
	{"marktplaats", "Marktplaats", Coined, "marktplaats.*"},
	{"2dehands", "2dehands", Coined, "2dehands.be"},
	{"ricardo", "Ricardo", Word, "ricardo.ch"},
	{"blocket", "Blocket", Coined, "blocket.se"},
	{"otomoto", "Otomoto", Coined, "otomoto.pl"},
	{"cdiscount", "Cdiscount", Coined, "cdiscount.*"},
	{"darty", "Darty", Word, "darty.*"},
	{"fnac", "Fnac", Short, "fnac.*"},
	{"carrefour", "Carrefour", Word, "carrefour.*"},
	{"decathlon", "Decathlon", Coined, "decathlon.* decathlon-*.*"},
	{"leroymerlin", "Leroy Merlin", Coined, "leroymerlin.*"},
	{"ikea", "IKEA", Short, "ikea.*"},
	{"lidl", "Lidl", Short, "lidl.* lidl-*.*"},
	{"aldi", "ALDI", Short, "aldi.* aldi-*.*"},
	{"mediamarkt", "MediaMarkt", Coined, "mediamarkt.* mediamarktsaturn.com"},
	{"bolcom", "bol", Coined, "bol.com"},
	{"coolblue", "Coolblue", Coined, "coolblue.*"},
	{"walmart", "Walmart", Coined | Desk, `walmart.* walmartimages.com walmartlabs.com walmartcanada.ca
		walmartmexico.com walmartone.com`},
	{"costco", "Costco", Coined, "costco.* costcotravel.com costcotireappointments.com costcobusinessdelivery.com"},
	{"bestbuy", "Best Buy", Word, "bestbuy.*"},
	{"homedepot", "Home Depot", Coined, "homedepot.*"},
	{"etsy", "Etsy", Short, "etsy.*"},
	{"shopify", "Shopify", Coined, `shopify.* shopifycdn.com shopifysvc.com shopifycloud.com
		shopifyapps.com shopifypreview.com`},
	{"booking", "Booking.com", Word | DeskAlone, "booking.com bookingholdings.com"},
	{"bookingcom", "Booking.com", Coined | Desk, "booking.com"},
	{"airbnb", "Airbnb", Coined | Desk, "airbnb.* airbnb.github.io"},
	{"expedia", "Expedia", Coined, "expedia.* expediagroup.com expediapartnercentral.com"},
	{"tripadvisor", "Tripadvisor", Coined, "tripadvisor.*"},
	{"ryanair", "Ryanair", Coined, "ryanair.*"},
	{"lufthansa", "Lufthansa", Coined, "lufthansa.* lufthansa-*.* lufthansagroup.*"},
	{"emirates", "Emirates", Word, "emirates.*"},
	{"uber", "Uber", Short, "uber.* ubereats.com"},
	{"blablacar", "BlaBlaCar", Coined, "blablacar.*"},
	{"adidas", "adidas", Coined, "adidas.* adidas-group.com"},
	{"nike", "Nike", Short, "nike.* nikeinc.com"},
	{"louisvuitton", "Louis Vuitton", Coined, "louisvuitton.*"},
	{"michaelkors", "Michael Kors", Coined, "michaelkors.*"},
	{"tommyhilfiger", "Tommy Hilfiger", Coined, "tommy.com tommyhilfiger.*"},
	{"pandora", "Pandora", Word, "pandora.*"},
	{"birkenstock", "Birkenstock", Coined, "birkenstock.*"},
	{"skechers", "Skechers", Coined, "skechers.*"},
	{"northface", "The North Face", Coined, "thenorthface.*"},
	{"lululemon", "lululemon", Coined, "lululemon.*"},
	{"rayban", "Ray-Ban", Coined, "ray-ban.com"},
	{"samsung", "Samsung", Coined, `samsung.* samsungcloud.com samsungcloudsolution.com
		samsungcloudsolution.net samsungapps.com samsungelectronics.com samsungknox.com samsungdm.com
		samsungosp.com samsunghealth.com samsung-*.* samsungtvplus.com samsungotn.net samsungiotcloud.com
		samsungqbe.com samsungrs.com samsungusa.com samsungsds.com samsungsvc.com samsunghrm.com
		samsungcloudcdn.com samsungpositioning.com samsungdive.com samsungadhub.com samsungacr.com
		samsungdiroute.net samsungmobile.com samsungsemi.com samsungfire.com`},
	{"huawei", "Huawei", Coined, "huawei.* huaweicloud.com huawei-*.* huaweistatic.com"},
	{"xiaomi", "Xiaomi", Coined, "xiaomi.* xiaomicp.com xiaomiyoupin.com xiaomiev.com"},
	{"thunderbird", "Thunderbird", Word, "thunderbird.net"},
	{"mozilla", "Mozilla", Coined, "mozilla.* mozilla.net mozillalabs.com mozillafoundation.org"},
	{"wikipedia", "Wikipedia", Coined, "wikipedia.*"},
	{"gofundme", "GoFundMe", Coined, "gofundme.com"},
	{"tesla", "Tesla", Word, "tesla.* teslamotors.com"},
	{"sephora", "Sephora", Coined, "sephora.*"},
	{"nespresso", "Nespresso", Coined, "nespresso.*"},
	{"uniqlo", "UNIQLO", Coined, "uniqlo.*"},
	{"auchan", "Auchan", Coined, "auchan.* auchan-retail.com"},
	{"mercari", "Mercari", Coined, "mercari.*"},
	{"talktalk", "TalkTalk", Coined, "talktalk.* talktalkbusiness.co.uk talktalkgroup.com talktalk.net"},
	{"hypixel", "Hypixel", Coined, "hypixel.net"},
	{"valorant", "VALORANT", Coined, "playvalorant.com"},
	{"csgorun", "CSGORUN", Coined, "csgorun.*"},
	{"microsoftteams", "Microsoft Teams", Coined, "microsoft.com microsoftteams.com"},
	{"cryptotab", "CryptoTab", Coined, "cryptobrowser.site cryptotab.net"},
	{"seur", "SEUR", Short, "seur.*"},
}
