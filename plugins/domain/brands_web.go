package main

// webBrands are mail and office services, social networks, shops, streaming, games, hosting and devices.
var webBrands = [...]brand{
	{"google", "Google", coined, `google.* google.cm google.ne google.co google-analytics.com googleapis.com googlevideo.com
		googleusercontent.com googletagmanager.com googlesyndication.com googleadservices.com
		googletagservices.com googlemail.com googlesource.com googleblog.com googlecode.com googleearth.com
		googlegroups.com googlestore.com googleplay.com googleweblight.com googledomains.com googlefiber.net
		googleapps.com googlezip.net googlecnapps.cn googlehosted.com googlecloud.com googlepages.com
		googleanalytics.com googleoptimize.com googlesciencefair.com googlephotos.com googleadsserving.cn
		googlebot.com googledrive.com googlecommerce.com googlemaps.com`},
	{"gmail", "Gmail", coined, "gmail.com google.com gmail.*"},
	{"youtube", "YouTube", coined, `youtube.* youtubeeducation.com youtube-nocookie.com youtubekids.com
		youtubego.com youtubegaming.com youtubemobilesupport.com`},
	{"microsoft", "Microsoft", coined, `microsoft.* microsoftonline.com microsoftonline-p.com
		microsoftstream.com microsoftstore.com microsoftazuread-sso.com microsoftinternetsafety.net
		microsoftedge.com microsofttranslator.com microsoftpersonalcontent.com microsoftcloud.com
		microsoft365.com microsoftusercontent.com microsoftedgeinsider.com microsoft-int.com`},
	{"office365", "Microsoft 365", coined, "office365.com office365.us office.com"},
	{"outlook", "Outlook", word, "outlook.* outlookmobile.com"},
	{"hotmail", "Hotmail", coined, "hotmail.*"},
	{"onedrive", "OneDrive", coined, "onedrive.* onedrive.live.com"},
	{"sharepoint", "SharePoint", coined, "sharepoint.* sharepointonline.com sharepoint-df.com"},
	{"windows", "Windows", word, "windows.com windows.net windowsupdate.com windowsphone.com"},
	{"skype", "Skype", coined, "skype.* skypeassets.com skypeforbusiness.com"},
	{"xbox", "Xbox", short, "xbox.* xboxlive.com xboxservices.com xboxgamepass.com"},
	{"bing", "Bing", short, "bing.* bing.net"},
	{"linkedin", "LinkedIn", coined, "linkedin.* linkedin-ei.com linkedinlearning.com"},
	{"github", "GitHub", coined, `github.* githubassets.com githubusercontent.com githubapp.com
		githubcopilot.com githubstatus.com`},
	{"gitlab", "GitLab", word, "gitlab.*"},
	{"apple", "Apple", word, `apple.* apple-dns.net apple-mapkit.com apple-cloudkit.com
		apple-livephotoskit.com applepay.com appleid.com applemusic.com applecard.com`},
	{"appleid", "Apple ID", coined, "appleid.com apple.com"},
	{"icloud", "iCloud", coined, "icloud.* icloud-content.com"},
	{"itunes", "iTunes", coined, "itunes.*"},
	{"iphone", "iPhone", coined, "iphone.*"},
	{"amazon", "Amazon", coined, `amazon.* amazonaws.com amazon-adsystem.com amazonaws.com.cn amazonpay.com
		amazontrust.com amazonalexa.com amazonvideo.com amazonmusic.com amazonbusiness.com amazon-corp.com
		amazonses.com amazonwebservices.com amazonaws-china.com amazonbrowserapp.com amazonstudios.com
		amazon-dss.com amazonfctours.com amazoncognito.com amazonprimevideo.cn amazonsdi.com
		amazonworkspaces.com amazongames.com`},
	{"primevideo", "Prime Video", coined, "primevideo.* amazonvideo.com"},
	{"amazonprime", "Amazon Prime", coined, "amazon.com primevideo.com"},
	{"facebook", "Facebook", coined, `facebook.* facebookcorewwwi.onion facebookmail.com
		facebook-hardware.com facebookblueprint.com facebookbrand.com facebook-studio.com facebookconnect.com
		facebookstories.com facebookdevelopers.com fb.com`},
	{"instagram", "Instagram", coined, `instagram.* instagram-brand.com instagram-engineering.com
		instagram-press.com cdninstagram.com instagramenglish.com`},
	{"whatsapp", "WhatsApp", coined, "whatsapp.* whatsappbrand.com whatsapp-plus.info whatsapp-plus.net"},
	{"messenger", "Messenger", word, "messenger.com m.me"},
	{"telegram", "Telegram", word, "telegram.* telegram-cdn.org"},
	{"snapchat", "Snapchat", coined, "snapchat.*"},
	{"tiktok", "TikTok", coined, `tiktok.* tiktokv.com tiktokcdn.com tiktokcdn-us.com tiktokv.us
		tiktokglobalshop.com tiktokcdn-eu.com tiktokw.us tiktokrow-cdn.com tiktokshop.com tiktokd.org
		tiktokd.net tiktoktime.com`},
	{"twitter", "Twitter", coined, `twitter.* twitterflightschool.com twitterinc.com twitteroauth.com
		twitterstat.us twittercommunity.com`},
	{"pinterest", "Pinterest", coined, "pinterest.* pinterestmail.com"},
	{"reddit", "Reddit", coined, `reddit.* redditstatic.com redditmedia.com redditinc.com redditmail.com
		redditspace.com redditblog.com`},
	{"tumblr", "Tumblr", coined, "tumblr.*"},
	{"discord", "Discord", coined, `discord.* discordapp.com discordapp.net discordcdn.com discordmerch.com
		discordstatus.com discordpartygames.com discord-activities.com discordactivities.com discordsays.com
		discordquests.com`},
	{"hypesquad", "Discord HypeSquad", coined, "discord.com"},
	{"vkontakte", "VK", coined, "vkontakte.ru vk.com"},
	{"tinder", "Tinder", word, "tinder.*"},
	{"badoo", "Badoo", coined, "badoo.* badoocdn.com"},
	{"yahoo", "Yahoo", coined, `yahoo.* yahooapis.com yahoodns.net yahooinc.com yahoo-email.com
		yahoosmallbusiness.com yahoosandbox.com`},
	{"protonmail", "Proton Mail", coined, "protonmail.* proton.me protonmail.ch"},
	{"webde", "WEB.DE", word, "web.de"},
	{"gmx", "GMX", short, "gmx.* gmx-*.*"},
	{"libero", "Libero", word, "libero.it"},
	{"zimbra", "Zimbra", word, "zimbra.* zimbra.com"},
	{"roundcube", "Roundcube", word, "roundcube.*"},
	{"docusign", "DocuSign", coined, "docusign.* docusign-*.*"},
	{"dropbox", "Dropbox", coined, `dropbox.* dropboxusercontent.com dropboxapi.com dropbox-dns.com
		dropboxstatic.com dropboxforum.com dropboxpartners.com dropboxbusiness.com`},
	{"wetransfer", "WeTransfer", coined, "wetransfer.* wetransfer.net"},
	{"adobe", "Adobe", coined, `adobe.* adobe-*.* adobedtm.com adobelogin.com adobess.com adobecc.com
		adobeaemcloud.com adobesign.com adobesigncdn.com adobeexchange.com adobeconnect.com adobesc.com
		adobemagazine.com adobeoobe.com`},
	{"zoom", "Zoom", short, "zoom.* zoomgov.com zoomcares.org"},
	{"slack", "Slack", word, "slack.*"},
	{"salesforce", "Salesforce", coined, `salesforce.* salesforce-*.com salesforceliveagent.com
		salesforcemarketingcloud.com salesforceiq.com salesforce-sites.com`},
	{"atlassian", "Atlassian", coined, "atlassian.*"},
	{"godaddy", "GoDaddy", coined, "godaddy.* godaddysites.com"},
	{"cloudflare", "Cloudflare", coined, `cloudflare.* cloudflare-dns.com cloudflareinsights.com
		cloudflarestatus.com cloudflarestream.com cloudflarestorage.com cloudflareaccess.com
		cloudflare-ipfs.com cloudflareapps.com cloudflareclient.com cloudflarestatic.com
		cloudflarepartners.com cloudflare-gateway.com`},
	{"ionos", "IONOS", coined, "ionos.* ionos.space"},
	{"strato", "STRATO", word, "strato.*"},
	{"ovhcloud", "OVHcloud", coined, "ovhcloud.* ovh.com"},
	{"namecheap", "Namecheap", coined, "namecheap.*"},
	{"wordpress", "WordPress", word, "wordpress.* wordpress.org"},
	{"norton", "Norton", word, "norton.*"},
	{"nortonlifelock", "NortonLifeLock", coined, "nortonlifelock.*"},
	{"mcafee", "McAfee", coined, "mcafee.* mcafeesecure.com mcafeewebadvisor.com mcafeemobilesecurity.com"},
	{"kaspersky", "Kaspersky", coined, "kaspersky.* kaspersky-labs.com kasperskylab.*"},
	{"malwarebytes", "Malwarebytes", coined, "malwarebytes.*"},
	{"bitdefender", "Bitdefender", coined, "bitdefender.*"},
	{"symantec", "Symantec", coined, "symantec.* symantecliveupdate.com"},
	{"avast", "Avast", coined, "avast.* avastbrowser.com"},
	{"nordvpn", "NordVPN", coined, "nordvpn.*"},
	{"expressvpn", "ExpressVPN", coined, "expressvpn.*"},
	{"lastpass", "LastPass", coined, "lastpass.*"},
	{"chatgpt", "ChatGPT", coined, "chatgpt.com openai.com"},
	{"openai", "OpenAI", coined, "openai.*"},
	{"deepseek", "DeepSeek", coined, "deepseek.com"},
	{"netflix", "Netflix", coined, `netflix.* netflixinvestor.com netflixstudios.com netflixdnstest1.com
		netflix.github.io netflixtechblog.com netflixhouse.com netflixpartners.com`},
	{"disneyplus", "Disney+", coined, "disneyplus.* disney-plus.net disney.com"},
	{"disney", "Disney", coined, `disney.* disneyplus.com disneyland.* disneyworld.* disneystore.*
		disneylandparis.* disneyinternational.com disneyparks.* disneycruise.* disneycareers.com`},
	{"spotify", "Spotify", coined, `spotify.* spotifycdn.com spotifyforbrands.com spotifyjobs.com
		spotifycodes.com spotify-com.akamaized.net`},
	{"deezer", "Deezer", coined, "deezer.*"},
	{"soundcloud", "SoundCloud", coined, "soundcloud.*"},
	{"twitch", "Twitch", coined, "twitch.* twitchcdn.net twitchsvc.net twitchcon.com"},
	{"dailymotion", "Dailymotion", coined, "dailymotion.*"},
	{"hbomax", "HBO Max", coined, "hbomax.*"},
	{"paramountplus", "Paramount+", coined, "paramountplus.*"},
	{"crunchyroll", "Crunchyroll", coined, "crunchyroll.*"},
	{"steamcommunity", "Steam", coined, "steamcommunity.com"},
	{"steampowered", "Steam", coined, "steampowered.com"},
	{"steam", "Steam", word, `steampowered.com steamcommunity.com steamcontent.com steamstatic.com
		steamgames.com steamserver.net steam-chat.com steamusercontent.com steamstat.us`},
	{"epicgames", "Epic Games", coined, "epicgames.* epicgames.dev"},
	{"fortnite", "Fortnite", coined, "fortnite.com"},
	{"roblox", "Roblox", coined, "roblox.* robloxlabs.com robloxcdn.com robloxdev.com"},
	{"minecraft", "Minecraft", coined, `minecraft.* minecraftservices.com minecraftforum.net
		minecraft-services.net minecraft.wiki`},
	{"playstation", "PlayStation", coined, "playstation.* playstation.net"},
	{"nintendo", "Nintendo", coined, "nintendo.* nintendoswitch.com nintendo-europe.com"},
	{"battlenet", "Battle.net", coined, "battle.net battlenet.com.cn"},
	{"blizzard", "Blizzard", word, "blizzard.*"},
	{"riotgames", "Riot Games", coined, "riotgames.*"},
	{"leagueoflegends", "League of Legends", coined, "leagueoflegends.*"},
	{"counterstrike", "Counter-Strike", coined, "counter-strike.net"},
	{"faceit", "FACEIT", coined, "faceit.com faceit-cdn.net"},
	{"opskins", "OPSkins", coined, "opskins.com"},
	{"ubisoft", "Ubisoft", coined, "ubisoft.* ubisoftconnect.com"},
	{"bet365", "bet365", coined, "bet365.* bet365affiliates.com"},
	{"winamax", "Winamax", coined, "winamax.*"},
	{"betclic", "Betclic", coined, "betclic.*"},
	{"ebay", "eBay", short, "ebay.* ebaystatic.com ebayimg.com ebay-kleinanzeigen.de"},
	{"kleinanzeigen", "Kleinanzeigen", coined, "kleinanzeigen.* ebay-kleinanzeigen.de *kleinanzeigen.*"},
	{"alibaba", "Alibaba", coined, `alibaba.* alibabacloud.com alibabagroup.com alibabadns.com
		alibabausercontent.com alibaba-inc.com`},
	{"aliexpress", "AliExpress", coined, "aliexpress.* aliexpress-media.com"},
	{"taobao", "Taobao", coined, "taobao.*"},
	{"shopee", "Shopee", coined, "shopee.* shopeemobile.com shopeepay.*"},
	{"lazada", "Lazada", coined, "lazada.*"},
	{"temu", "Temu", short, "temu.*"},
	{"shein", "SHEIN", coined, "shein.* sheingroup.com"},
	{"zalando", "Zalando", coined, "zalando.* zalando-*.*"},
	{"allegro", "Allegro", word, `allegro.pl allegro.cz allegro.sk allegro.eu allegro.hu allegro.tech
		allegrogroup.com allegrostatic.com allegrosandbox.pl`},
	{"allegrolokalnie", "Allegro Lokalnie", coined, "allegrolokalnie.pl"},
	{"vinted", "Vinted", coined, "vinted.*"},
	{"leboncoin", "leboncoin", coined, "leboncoin.fr leboncoin.io"},
	{"wallapop", "Wallapop", coined, "wallapop.*"},
	{"subito", "Subito", word, "subito.it"},
	{"marktplaats", "Marktplaats", coined, "marktplaats.*"},
	{"2dehands", "2dehands", coined, "2dehands.be"},
	{"ricardo", "Ricardo", word, "ricardo.ch"},
	{"blocket", "Blocket", coined, "blocket.se"},
	{"otomoto", "Otomoto", coined, "otomoto.pl"},
	{"cdiscount", "Cdiscount", coined, "cdiscount.*"},
	{"darty", "Darty", word, "darty.*"},
	{"fnac", "Fnac", short, "fnac.*"},
	{"carrefour", "Carrefour", word, "carrefour.*"},
	{"decathlon", "Decathlon", coined, "decathlon.* decathlon-*.*"},
	{"leroymerlin", "Leroy Merlin", coined, "leroymerlin.*"},
	{"ikea", "IKEA", short, "ikea.*"},
	{"lidl", "Lidl", short, "lidl.* lidl-*.*"},
	{"aldi", "ALDI", short, "aldi.* aldi-*.*"},
	{"mediamarkt", "MediaMarkt", coined, "mediamarkt.* mediamarktsaturn.com"},
	{"bolcom", "bol", coined, "bol.com"},
	{"coolblue", "Coolblue", coined, "coolblue.*"},
	{"walmart", "Walmart", coined, `walmart.* walmartimages.com walmartlabs.com walmartcanada.ca
		walmartmexico.com walmartone.com`},
	{"costco", "Costco", coined, "costco.* costcotravel.com costcotireappointments.com costcobusinessdelivery.com"},
	{"bestbuy", "Best Buy", word, "bestbuy.*"},
	{"homedepot", "Home Depot", coined, "homedepot.*"},
	{"etsy", "Etsy", short, "etsy.*"},
	{"shopify", "Shopify", coined, `shopify.* shopifycdn.com shopifysvc.com shopifycloud.com
		shopifyapps.com shopifypreview.com`},
	{"booking", "Booking.com", word, "booking.com bookingholdings.com"},
	{"bookingcom", "Booking.com", coined, "booking.com"},
	{"airbnb", "Airbnb", coined, "airbnb.* airbnb.github.io"},
	{"expedia", "Expedia", coined, "expedia.* expediagroup.com expediapartnercentral.com"},
	{"tripadvisor", "Tripadvisor", coined, "tripadvisor.*"},
	{"ryanair", "Ryanair", coined, "ryanair.*"},
	{"lufthansa", "Lufthansa", coined, "lufthansa.* lufthansa-*.* lufthansagroup.*"},
	{"emirates", "Emirates", word, "emirates.*"},
	{"uber", "Uber", short, "uber.* ubereats.com"},
	{"blablacar", "BlaBlaCar", coined, "blablacar.*"},
	{"adidas", "adidas", coined, "adidas.* adidas-group.com"},
	{"nike", "Nike", short, "nike.* nikeinc.com"},
	{"louisvuitton", "Louis Vuitton", coined, "louisvuitton.*"},
	{"michaelkors", "Michael Kors", coined, "michaelkors.*"},
	{"tommyhilfiger", "Tommy Hilfiger", coined, "tommy.com tommyhilfiger.*"},
	{"pandora", "Pandora", word, "pandora.*"},
	{"birkenstock", "Birkenstock", coined, "birkenstock.*"},
	{"skechers", "Skechers", coined, "skechers.*"},
	{"northface", "The North Face", coined, "thenorthface.*"},
	{"lululemon", "lululemon", coined, "lululemon.*"},
	{"rayban", "Ray-Ban", coined, "ray-ban.com"},
	{"samsung", "Samsung", coined, `samsung.* samsungcloud.com samsungcloudsolution.com
		samsungcloudsolution.net samsungapps.com samsungelectronics.com samsungknox.com samsungdm.com
		samsungosp.com samsunghealth.com samsung-*.* samsungtvplus.com samsungotn.net samsungiotcloud.com
		samsungqbe.com samsungrs.com samsungusa.com samsungsds.com samsungsvc.com samsunghrm.com
		samsungcloudcdn.com samsungpositioning.com samsungdive.com samsungadhub.com samsungacr.com
		samsungdiroute.net samsungmobile.com samsungsemi.com samsungfire.com`},
	{"huawei", "Huawei", coined, "huawei.* huaweicloud.com huawei-*.* huaweistatic.com"},
	{"xiaomi", "Xiaomi", coined, "xiaomi.* xiaomicp.com xiaomiyoupin.com xiaomiev.com"},
	{"thunderbird", "Thunderbird", word, "thunderbird.net"},
	{"mozilla", "Mozilla", coined, "mozilla.* mozilla.net mozillalabs.com mozillafoundation.org"},
	{"wikipedia", "Wikipedia", coined, "wikipedia.*"},
	{"gofundme", "GoFundMe", coined, "gofundme.com"},
	{"tesla", "Tesla", word, "tesla.* teslamotors.com"},
	{"sephora", "Sephora", coined, "sephora.*"},
	{"nespresso", "Nespresso", coined, "nespresso.*"},
	{"uniqlo", "UNIQLO", coined, "uniqlo.*"},
	{"auchan", "Auchan", coined, "auchan.* auchan-retail.com"},
	{"mercari", "Mercari", coined, "mercari.*"},
	{"talktalk", "TalkTalk", coined, "talktalk.* talktalkbusiness.co.uk talktalkgroup.com talktalk.net"},
	{"hypixel", "Hypixel", coined, "hypixel.net"},
	{"valorant", "VALORANT", coined, "playvalorant.com"},
	{"csgorun", "CSGORUN", coined, "csgorun.*"},
	{"microsoftteams", "Microsoft Teams", coined, "microsoft.com"},
	{"cryptotab", "CryptoTab", coined, "cryptobrowser.site cryptotab.net"},
	{"seur", "SEUR", short, "seur.*"},
}
