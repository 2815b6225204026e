package main

import "assay/plugins/wordlist"

// ordinaryWords are words and names that lie within the tolerance of a brand, or fold to one, and mean something else.
const ordinaryWords = "" +
	"allegory allegra allegri amazone amber ampel ample appeal apples applied apply arrange auctions " +
	"aucune avant badog balance banker banking binary bitman bitmap bitmax bitstar blocked blocker " +
	"bluewind boost canoe cardamom cardan cardone cease chance change chased chaser cloud commercebank " +
	"contact cooking coreos correct correo cream decor digit digital discard discards discern disco " +
	"discordia discos discount discover dream eagle easypay emirate engine espresso ethereal ethernet " +
	"europe europop exodos expedition expresso fidelio finance finances finder glitch grail grapple " +
	"inpact instant instinct insult interact internet intranet kinder klara kontakt krake kraker kramer " +
	"krill ledge ledgers libera lobby lodger logistic mall maple matrix mediamart merari mercado mercato " +
	"mercury metabase metadata millennium mobile monde mondo monza netflow norden nordic normal nuance " +
	"online openair openapi opengl orangerie oranges orden order orient orion ostern packet papal pascal " +
	"paxton paypass phantoms phase phone phones playstore postal postel postman quote quoted quotes rabbi " +
	"record reddot redit retalk revolt revolution ricard ricards rolex romance royale samson shape shared " +
	"shelf shell shelter shelves shopper shutter simple skill skills skin solan solano sparrow spotlight " +
	"starter steal steamer steams stitch storage stream strike strip stripes strive sweden swift swiss " +
	"swisspor swissport switch swype target tauren team teams tinderbox tremor tresor trezoro trust " +
	"trusted tweet tweeter twister twitcher ulster union utilities utility vemo venom whisper wikidata " +
	"wikimedia youtuber zapped zelda "

// ordinary says whether s is such a word.
func ordinary(s string) bool { return wordlist.Has(ordinaryWords, s) }
