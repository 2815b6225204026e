package main

// ordinaryWords are words and names that are within the edit limit of a brand, or have its skeleton, but mean something
// else, and names of sites that are words themselves. One of them is never a slip, and a site whose name is one of them
// is not coined. They are sorted.
const ordinaryWords = "" +
	"academia academias academic academica academie accademia addible airpay allegory allegra allegri allenpress " +
	"alliance alliances allians alliant amason amazona amazone amazons amber ampel ample ancestry androide " +
	"androids aneroid anthropic apartment apartments apolitico aposte appeal apples applied apply archie archive " +
	"archived archiver archives archivo arrange artier asic auctions aucune audible avant aviva backboard badog " +
	"balance balances banca bandcamp bankad banked banker banking barberry barclay basics battery battle bazar " +
	"belfair berkeley bicom bicoms bikkie bilance billow binary binom binome binomio bitman bitmap bitmax bitnet " +
	"bitstar black blackbeard blackboard blocked blocken blocker blocks blogger blooket bluefin bluewind bluewing " +
	"bogada bolada boohoo boost bootstrap bottle britannia britannic burgering cabalas cambridge canoe canonical " +
	"cantier capitaine capitaines caracter carat caravana cardamom cardan cardat cardone carmat carpal carrier " +
	"carriere carter cartiera cattle cease chance change channel channels character chariat chased chaser cinteria " +
	"cleaner clerks clocks cloud cognomi columba columban commercebank conserve contact converge conversed " +
	"converter cooking coreos correct correo correre corriere corrieri corsera cosaco cosico costo courser " +
	"coursers cream crock cross debina debunk decor deeper dictionary digit digital discard discards discern disco " +
	"discoed discoid discorde discordi discordia discos discount discover disneys distord domino dominus dream " +
	"dueling eagle easybet easynet easypay economie economism economist edmund edmunds eichmann emirate emonde " +
	"enciclopedia encyclopaedia encyclopedia engine entel envidia epais epson espresso estrade ethereal ethernet " +
	"eureka europe europop euterpe exodos expedita expedite expedition expresso facet facit fandom fandoms fantom " +
	"farmer farmers feather federa fedor feebly ferrari fetlife fidelio finance finances finder finnar fintel " +
	"firebox fiver flick flicker flicks footboy forbes forces forges formes fortes fortune fortunes freelance " +
	"freelancer frontier frontiere frontiers galaxis gametop gamin gamstop garden gardin garvin gazette gazzetta " +
	"geezer gigabytes glitch goggle gomail googly gopay grail grapple greyhound guarda gunther hamster harmony " +
	"harvard health heather heureka hilton hinted hinton hmail hoopla hostel hostels hotel hotell hotels hovels " +
	"huntington ibtimes icloudy ilpost imports impost incline indeed independent indexed induit inmost inpact " +
	"instant instinct insult integ interact interest interia interim interna internet interpola interpole intranet " +
	"intuito inuit invidia irunes justest karna kartier kinder kingston kingstown klara klima kontakt kontakte " +
	"kotak krake kraker kramer krill labanca lacosta lanada lanzada larget latices latines leather ledge ledgers " +
	"lemonade letterbox libation libera liberation libra libre linted lithub lobby locket lodger logger logistic " +
	"loyal lyric lyrics magenta magneto mall mammut mandom mantra maple marmiton matrix mayfair mcdonald mediamart " +
	"medlife meetup merari mercado mercati mercato mercury merrill metabase metadata micheline millennium milton " +
	"mintel mitel mobile monde mondo montra monza morrison motels movies muntra netflow neuters nextdoor nodes " +
	"nopes norden nordic normal norwegian nuance online open openair openapi opengl openlearning opinai orangerie " +
	"oranges orden order orient orion ostern ovada overstock packet packets papal parget partier party pascal " +
	"password patimes patron patroon paxton payday paypass pcloud peels perplexity petlife phantoms phase phone " +
	"phones pillow playstore politic politica politico politics porches postal postel postman postmark princeton " +
	"progressive prudential pumas pumble pyspace python pythons quicken quicker quicket quote quoted quotes quotev " +
	"rabbi radium raible raketen random rattle razada reactor reaktor realtor record reddot redit reduit reeboks " +
	"reedit relator rendit renters repubblica republica resters retalk retters reuters revolt revolution ricard " +
	"ricards riccardo rolex romance routers royale rumble salando salomons samson sanford sattle scheele " +
	"scholastic scopes scribe scribed seagate searx sechat seedily shape shared shelf shell shelter shelves shoppe " +
	"shopper shrill shutter siegel simple sketchers skill skills skin skins skye slopes smart snipes softback " +
	"solan solano solomon sophora sorbes southwest sparekasse sparekassen sparrow speediest spegel spiegel " +
	"spotlight spring springen springer sprinter stafford stamford stanford staple stapler staples starter starto " +
	"steal steamer steams steife sterling stiff stitch storage strade stream strike stringer strip stripes stripo " +
	"strive surpass sweden swift swiss swisspor swissport switch swype synchron synchrony target targets tattle " +
	"tauren team teams telegraf telegraph template terrell tetrade texels thesaurus tichy tiffany tinderbox tinted " +
	"titter torget toyoda trade trapped tremor tresor trevor trezoro trist truest trugst truism trust trusted " +
	"tumbar tumble tumbler turist tweet tweeter twister twitcher twitchy ulster underground union utilities " +
	"utility vanguard vanish vcloud vemo venom vente vented versage versate vinte vinter wartier washable wattle " +
	"weather weathers wether whirlpool whisper wikidata wikimedia wilton winzig witch witter xcloud ymail youtuber " +
	"zapped zelda zmail zython "

// isOrdinary reports whether s is one of ordinaryWords, whose hashes tables.bin holds: a comparison with the words
// themselves would burn ten times as much fuel.
func isOrdinary(s string) bool {
	hash := wordHash(s)
	for k := hash >> (32 - ordinaryBits); index.ordinaryHashes[k] != 0; k = (k + 1) % (1 << ordinaryBits) {
		if index.ordinaryHashes[k] == hash {
			return true
		}
	}
	return false
}

// ordinaryBits is the logarithm of the size of ordinaryHashes, a hash table with linear probing.
const ordinaryBits = 11

// wordHash returns a hash of s that is not 0 for any of ordinaryWords.
func wordHash(s string) uint32 {
	h := uint32(2166136261) // FNV-1a
	for i := range len(s) {
		h = (h ^ uint32(s[i])) * radix
	}
	return h * hashMultiplier
}
