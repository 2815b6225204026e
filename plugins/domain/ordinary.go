package main

import "assay/plugins/internal/wordlist"

// ordinaryWords are words and names that are within the edit limit of a brand, or have its skeleton, but mean something
// else. They are sorted for package wordlist.
const ordinaryWords = "" +
	"airpay allegory allegra allegri allenpress amazone amber ampel ample appeal apples applied apply arrange " +
	"asic auctions aucune avant aviva badog balance balances banker banking basics battery bicom bicoms binary " +
	"bitman bitmap bitmax bitstar black blocked blocker blooket bluewind boost canoe cardamom cardan cardone " +
	"carpal cease chance change chased chaser clerks clocks cloud columba columban commercebank conserve contact " +
	"converge conversed converter cooking coreos correct correo cream crock cross decor digit digital discard " +
	"discards discern disco discordia discos discount discover dream eagle easybet easynet easypay emirate " +
	"engine entel epson espresso ethereal ethernet europe europop exodos expedition expresso fantom fetlife " +
	"fidelio finance finances finder fintel gametop gamstop glitch gomail gopay grail grapple health hmail " +
	"ibtimes icloudy ilpost inpact instant instinct insult integ interact internet intranet kinder klara klima " +
	"kontakt kotak krake kraker kramer krill labanca lacosta ledge ledgers libera libra libre lithub lobby " +
	"lodger logistic mall maple matrix mediamart medlife merari mercado mercato mercury merrill metabase " +
	"metadata millennium mintel mitel mobile monde mondo monza netflow norden nordic normal nuance online " +
	"openair openapi opengl openlearning orangerie oranges orden order orient orion ostern packet papal party " +
	"pascal paxton paypass pcloud petlife phantoms phase phone phones playstore postal postel postman pumas " +
	"pumble pyspace quicker quicket quote quoted quotes quotev rabbi record reddot redit reeboks retalk revolt " +
	"revolution ricard ricards rolex romance royale rumble salomons samson searx shape shared shelf shell " +
	"shelter shelves shopper shutter simple skill skills skin skins skye smart solan solano solomon sparrow " +
	"spotlight spring starter steal steamer steams stitch storage stream strike strip stripes stripo strive " +
	"sweden swift swiss swisspor swissport switch swype target tauren team teams telegraf telegraph template " +
	"tinderbox tremor tresor trezoro trust trusted tweet tweeter twister twitcher ulster union utilities utility " +
	"vanish vcloud vemo venom versage whisper wikidata wikimedia xcloud ymail youtuber zapped zelda zmail "

// isOrdinary reports whether s is one of ordinaryWords.
func isOrdinary(s string) bool { return wordlist.Has(ordinaryWords, s) }
