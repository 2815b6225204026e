package brand

import "strings"

// Sites are the main domains of popular sites that typosquatters imitate, sorted for package wordlist. Unlike a brand,
// a site matches only a whole label or a whole part of one. Names within one edit of many legitimate names are left
// out.
const Sites = "" +
	"123movies.com 1password.com 888casino.com abercrombie.com academia.edu accuweather.com addictinggames.com " +
	"advanceautoparts.com aeroflot.ru aeropostale.com aeropuertomadrid-barajas.com airasia.com aircanada.com " +
	"airfrance.com alaskaair.com aljazeera.com allocine.fr allrecipes.com allstate.com altavista.com " +
	"americanairlines.com ameriprise.com amtrak.com anandtech.com ancestry.com android.com angieslist.com " +
	"animepahe.com anthropic.com anthropologie.com anydesk.com apartments.com archive.org archiveofourown.org " +
	"archlinux.org armorgames.com arstechnica.com ashleymadison.com askjeeves.com atlantaairport.com audible.com " +
	"auto-owners.com autoscout24.de autotrader.com autozone.com avira.com axisbank.com baidu.com bananarepublic.com " +
	"bandcamp.com banggood.com bangkokairportonline.com bankofbaroda.com bankrate.com bankwithssb.com " +
	"barnesandnoble.com basecamp.com basspro.com bathandbodyworks.com battle.net bedbathandbeyond.com " +
	"beijingairport.com berkeley.edu betfair.com bhphotovideo.com bigcommerce.com bitbucket.org bittorrent.com " +
	"bitwarden.com blackboard.com blackrock.com bleacherreport.com bleepingcomputer.com blogger.com blogspot.com " +
	"bloomberg.com bluecrossblueshield.com bluehost.com bonappetit.com boohoo.com boostmobile.com bootstrap.com " +
	"bostonairport.com bostonglobe.com bovada.lv bridgestone.com britannica.com britishairways.com broadcastify.com " +
	"broadcom.com buienradar.nl burgerking.com businessinsider.com buzzfeed.com cabelas.com cadillac.com " +
	"callofduty.com cambridge.org canarabank.com canonical.com careerbuilder.com cargurus.com carphonewarehouse.com " +
	"cartoonnetwork.com carvana.com cathaypacific.com cbsnews.com cbssports.com ccleaner.com ceneo.pl " +
	"centurylink.com changiairport.com channelnewsasia.com character.ai charlesschwab.com chaturbate.com chegg.com " +
	"chengdu-airport.com chevrolet.com chevy.com chicagotribune.com chick-fil-a.com chipotle.com chromium.org " +
	"chrysler.com cisco.com citigroup.com citizensbank.com clevelandclinic.org cocacola.com codecademy.com " +
	"collegeboard.org collegehumor.com commentcamarche.net comparethemarket.com computerworld.com " +
	"consumerreports.org cookpad.com coolmathgames.com corriere.it couchsurfing.com coursehero.com coursera.org " +
	"craigslist.org crateandbarrel.com creditkarma.com creditonebank.com cricbuzz.com cricketwireless.com " +
	"cvspharmacy.com dailyexpress.co.uk dailymail.co.uk dailystar.co.uk dashlane.com debenhams.com debian.org " +
	"deliveroo.com denverairport.com detroitnews.com deutschebahn.com deviantart.com dfwairport.com " +
	"dickssportinggoods.com dictionary.com digitalocean.com digitaltrends.com discogs.com discovercard.com " +
	"disneyland.com disneyworld.com distrowatch.com doctissimo.fr dohahamadairport.com dominos.com doordash.com " +
	"draftkings.com dreamhost.com dreamstime.com drugs.com dubaiairports.ae duckduckgo.com dunkindonuts.com " +
	"duolingo.com easyjet.com ebaumsworld.com economist.com ecosia.org edmunds.com edwardjones.com eharmony.com " +
	"electrolux.com elmundo.es elpais.com encyclopedia.com engadget.com epicurious.com epson.com equifax.com " +
	"espncricinfo.com esurance.com etrade.com euronews.com eurosport.com eurostar.com eurowings.com eventbrite.com " +
	"evernote.com experian.com familysearch.org fanart.tv fandom.com fanduel.com fanfiction.net farmers.com " +
	"fedora.org ferrari.com fifththird.com filehippo.com filezilla-project.org finnair.com firefox.com fitbit.com " +
	"fiverr.com flashscore.com flickr.com flipkart.com fly2houston.com flychicago.com flydenver.com flylax.com " +
	"flysfo.com fmovies.to foodnetwork.com foodpanda.com footlocker.com forbes.com forever21.com foxnews.com " +
	"frankfurt-airport.com freelancer.com freepik.com frontier.com funimation.com galerieslafayette.com gamefaqs.com " +
	"gamepedia.com gamespot.com gamestop.com garmin.com gatwickairport.com gazzetta.it gearbest.com geico.com " +
	"getfedora.org gettyimages.com giftcardmall.com gigabyte.com gizmodo.com glassdoor.com gocompare.com " +
	"goldmansachs.com goodreads.com goodrx.com goodyear.com grammarly.com greyhound.com grinnellmutual.com " +
	"grubhub.com gsmarena.com guangzhouairportonline.com gumtree.com gunbroker.com hackernews.com " +
	"harley-davidson.com harvard.edu hdfcbank.com healthline.com heathrow.com heureka.cz hewlettpackard.com " +
	"hilton.com hindustantimes.com hollisterco.com hongkongairport.com hostelworld.com hostgator.com hostinger.com " +
	"hotels.com howtogeek.com hrblock.com hubspot.com huffingtonpost.com huggingface.co humblebundle.com " +
	"huntington.com huntingtonbank.com hyundai.com icicibank.com iheartradio.com imgur.com immobilienscout24.de " +
	"immowelt.de incheonairport.kr indeed.com independent.co.uk indianexpress.com indiatimes.com indiegogo.com " +
	"ingrammicro.com instacart.com instructure.com intel.com intelius.com intellij.com interactivebrokers.com " +
	"interia.pl intermarche.com investopedia.com iowafarmbureau.com irishtimes.com istockphoto.com javascript.com " +
	"jcpenney.com jetblue.com jetbrains.com jeuxvideo.com jfkairport.com johnlewis.com jquery.com justeat.com " +
	"kaiserpermanente.org kansai-airport.or.jp keepass.info kelleybluebook.com keloland.com keybank.com " +
	"khanacademy.org kickstarter.com kijiji.ca kingston.com kinopoisk.ru kmart.com knowyourmeme.com kohls.com " +
	"kongregate.com kotaku.com kubernetes.io ladbrokes.com laguardiaairport.com lamborghini.com landrover.com " +
	"laredoute.fr latimes.com lefigaro.fr legoland.com lemonde.fr lendingtree.com lenovo.com leparisien.fr " +
	"letterboxd.com liberation.fr libertymutual.com libreoffice.org lifehacker.com limetorrents.info linode.com " +
	"linuxmint.com livejasmin.com livejournal.com livenation.com livescore.com logitech.com logmein.com lowes.com " +
	"lyrics.com macys.com magento.com mailchimp.com majorgeeks.com makeuseof.com mangadex.org mapquest.com " +
	"marketwatch.com marksandspencer.com marmiton.org marriott.com mashable.com massmutual.com mayoclinic.org " +
	"mcdonalds.com mcgrawhill.com mediaexpert.pl mediafire.com medlineplus.gov meetup.com megaupload.com " +
	"melbourneairport.com.au mercedes-benz.com merriam-webster.com merrilllynch.com metacritic.com metlife.com " +
	"metropcs.com miamiairport.com michelin.com microcenter.com midjourney.com midwayusa.com miniclip.com " +
	"mixcloud.com moneysavingexpert.com moneysupermarket.com morganstanley.com morningstar.com morrisons.com " +
	"msnbc.com mtbank.com munich-airport.de myanimelist.net myheritage.com myntra.com myspace.com narita-airport.jp " +
	"nationalgeographic.com nerdwallet.com networksolutions.com newarkairport.com newegg.com newgrounds.com " +
	"newscientist.com newsweek.com newyorker.com newyorklife.com nextdoor.com nikon.com nissan.com nodejs.org " +
	"nordstrom.com norwegian.com notepad-plus-plus.org nvidia.com nypost.com nytimes.com odnoklassniki.ru " +
	"offerup.com okcupid.com oldnavy.com onlinesbi.com onlyfans.com openoffice.org opensuse.org opentable.com " +
	"opera.com opticsplanet.com oreillyauto.com orlandoairports.net overstock.com paddypower.com pagesjaunes.fr " +
	"panasonic.com panerabread.com papajohns.com parisaeroport.fr pastebin.com patreon.com pcworld.com peacocktv.com " +
	"pepsi.com perplexity.ai pexels.com phoenixairport.com phonepe.com photobucket.com photoshop.com pixabay.com " +
	"pizzahut.com plentyoffish.com pokemon.com pokerstars.com politico.com politifact.com porsche.com " +
	"portseattle.org poshmark.com postmates.com potterybarn.com prestashop.com prettylittlething.com priceline.com " +
	"princeton.edu producthunt.com progressive.com protonvpn.com prudential.com putlocker.com python.org " +
	"qatarairways.com qualcomm.com quicken.com quickenloans.com quizlet.com quora.com rapidshare.com realtor.com " +
	"redfin.com redhat.com redtube.com rentalcars.com repubblica.it researchgate.net reuters.com rightmove.co.uk " +
	"riteaid.com rocketmortgage.com rockstargames.com rolex.com rottentomatoes.com royalbank.com rueducommerce.fr " +
	"runescape.com sainsburys.co.uk samsclub.com sandisk.com scheels.com schiphol.nl scholastic.com " +
	"sciencedirect.com scientificamerican.com screwfix.com scribd.com seagate.com seatgeek.com seaworld.com " +
	"seekingalpha.com seriouseats.com seznam.cz shanghai-airport.com shazam.com sheraton.com shopdisney.com " +
	"showmypc.com shutterfly.com shutterstock.com simplyhired.com singaporeair.com siteground.com sixflags.com " +
	"skyharbor.com skyscanner.com skysports.com slashdot.org smithsonianmag.com snapdeal.com snopes.com " +
	"soekarnohatta-airport.co.id sofascore.com softonic.com sonos.com sophos.com sourceforge.net southwest.com " +
	"speedtest.net spiegel.de splashtop.com sportsillustrated.com springer.com squarespace.com stackexchange.com " +
	"stackoverflow.com stanford.edu staples.com starbucks.com startpage.com statebankofindia.com statefarm.com " +
	"steamcontent.com straighttalk.com straitstimes.com stubhub.com studentaid.gov studocu.com sueddeutsche.de " +
	"suntrust.com surfshark.com surveymonkey.com sydneyairport.com.au synchrony.com tacobell.com target.com " +
	"taxact.com tdameritrade.com teamviewer.com techcrunch.com techradar.com telegraph.co.uk theatlantic.com " +
	"thechive.com theguardian.com themoviedb.org theonion.com thepiratebay.org thesaurus.com thesun.co.uk " +
	"theverge.com ticketmaster.com tiffany.com tigerdirect.com timesofindia.com tokopedia.com tokyo-haneda.com " +
	"tomsguide.com tomshardware.com torontopearson.com toshiba.com toyota.com tradingview.com transfermarkt.com " +
	"transunion.com travelocity.com treasurydirect.gov trendmicro.com trenitalia.com trivago.com truecaller.com " +
	"turkishairlines.com turnitin.com tvtropes.org typeform.com ubuntu.com unitedhealthcare.com " +
	"unitedhealthgroup.com universalstudios.com unsplash.com upwork.com urbandictionary.com urbanoutfitters.com " +
	"usatoday.com vanguard.com victoriassecret.com videolan.org vimeo.com virtualbox.org vividseats.com vmware.com " +
	"volkswagen.com vueling.com waitrose.com walgreens.com wallstreetjournal.com washingtonexaminer.com " +
	"washingtonpost.com wattpad.com wayfair.com weather.com weatherchannel.com weatherunderground.com webmd.com " +
	"wechat.com weebly.com westerndigital.com westjet.com whirlpool.com whitepages.com wikia.com wikihow.com " +
	"wikimedia.org wiktionary.org wildberries.ru williamhill.com williams-sonoma.com winrar.com winzip.com wired.com " +
	"wizzair.com wolframalpha.com wolterskluwer.com woocommerce.com worldofwarcraft.com wunderground.com xerox.com " +
	"xhamster.com yandex.ru yellowpages.com youporn.com youtubekids.com zappos.com zdnet.com zendesk.com zillow.com " +
	"ziprecruiter.com zoopla.co.uk "

// NextSite returns the first label of the site at offset start in Sites, and the offset of the next site.
func NextSite(start int) (label string, next int) {
	end := start
	for Sites[end] != '.' {
		end++
	}
	next = end
	for Sites[next] != ' ' {
		next++
	}
	return Sites[start:end], next + 1
}

// SiteAt returns the site at offset start in Sites as a brand that owns its label under every suffix.
func SiteAt(start int) *Brand {
	label, next := NextSite(start)
	domain := Sites[start : next-1]
	return &Brand{Key: strings.ReplaceAll(label, "-", ""), Name: domain, kind: Site, Domains: label + ".* " + domain}
}
