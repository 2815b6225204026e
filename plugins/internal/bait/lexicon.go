package bait

// Class is a set of purposes of bait words, one bit each.
type Class uint32

// The purposes of bait words.
const (
	Login    Class = 1 << iota // asks to sign in
	Verify                     // asks to confirm, to validate, to authenticate
	Secure                     // promises or threatens safety
	Account                    // the victim's account, profile or subscription
	Urgent                     // something expires, is suspended or must be renewed
	Bank                       // banking and its tools
	Pay                        // payments, invoices and cards
	Refund                     // money back: tax, fees, benefits
	Parcel                     // deliveries
	Fee                        // customs, tolls, fines
	Official                   // a state and its papers
	Prize                      // gifts, bonuses, giveaways
	Crypto                     // crypto assets
	Connect                    // joining a wallet to a page
	Invest                     // returns on money
	Support                    // help desks
	Work                       // jobs and applications
	Romance                    // dating and webcams
	Shop                       // outlets, replicas, discounts
	Cheat                      // cracks, cheats, generators
	Gaming                     // goods and events inside games and chat rooms
	Software                   // downloads, drivers, activators
	Gamble                     // games of chance
	Loan                       // quick credit
	Goods                      // goods that only licensed sellers may sell: medicine, drugs, arms, papers
	Pets                       // animals for sale
	Filler                     // words that make any name look official: www, com, my, online, official
)

// lexicon holds the words of each class in European and some Asian languages, from general knowledge of scam domains.
// Words are lower-case ASCII, as in labels, and in no particular order. A plus marks words for which [FindLoosely]
// accepts one edge. words.bin follows from it (TestWords), and a change requires training the lexical layer again.
var lexicon = [...]struct {
	class Class
	words string
}{
	{Login, `login logon logins signin signup signon loginpage logging weblogin userlogin sso webmail owa connexion
		connecter identification identifiant identifiants seconnecter anmelden anmeldung einloggen zaloguj logowanie
		zalogowac inloggen aanmelden acceso accesso accedi acceder acessar acesso entrar ingresar ingreso iniciar sesion
		logga inloggning innlogging kirjaudu prihlaseni prihlasenie bejelentkezes belepes giris vhod vxod access acces
		accessing session sessions passcode password passwort motdepasse contrasena senha haslo wachtwoord dostep
		dostepu zugang zugriff masuk denglu zhuce register registration registro registrarse cadastro cadastrar cadastre
		checkin espaceperso espaceclients voyti kayit daftar`},
	{Verify, `verify verif verifi verified verifying verification verifications verifica verificar verificacion
		verificacao verificare verificatie verifizieren verifizierung verifier verifiez confirm confirmation confirme
		confirma confirmar confirmacion conferma bestaetigen bestaetigung bestatigen bestatigung potwierdz potwierdzenie
		weryfikacja bevestigen bevestiging bevestig validate validation valider valida validar validacao validator
		validador authenticate authentication authenticator authentification authorize authorization authorise
		authorisation authorized auth autoryzacja autorizacion autorizar identity identify captcha recaptcha overeni
		ovjera potvrda controleer identificatie idcheck kyc activation activate activer activar activacion aktivieren
		aktivierung aktywacja attiva attivazione activeer zatwierdz zweryfikuj aktywuj legitimation legitimierung
		pruefung ueberpruefung datenabgleich dogrulama onayla podtverdit podtverzhdenie proverka verifikasi konfirmasi
		yanzheng renzheng confirmare confirmpage verifyaccount identificeren herstel validerion verifiedbadge badge
		bluebadge approve approval confirmed`},
	{Secure, `secure secured secures security securite securise sicherheit sicher seguridad seguro seguranca sicurezza
		sicuro bezpieczny bezpieczenstwo beveiliging beveiligd veilig veiligheid safety safe protect protection
		protected schutz guard antifraud antispam sakerhet bezpeci turvallisuus ssl protege protezione proteccion
		sicherheitshinweis sicherheitsupdate sperrung securisation controllo anquan antivirus infected malware virus
		viruses`},
	{Account, `account accounts acct compte comptes moncompte cuenta cuentas conto conta contas konto rekening profile
		profil profiel perfil myaccount user users username utilisateur usuario utente cliente clienti clientes client
		clients clientele kunde kunden kundenkonto kundenservice klient klienta kundencenter customer customers member
		membre membres mitglied abonnement abonnements abonne subscription subscriber billing espaceclient espace
		monespace mijn espacio area areaclienti areacliente personnel particulier particuliers identifiants dossier
		mydashboard panel meinkonto kundenbereich kundenportal konta konten moncompteclient areapersonale messagerie
		vocale hesap hesabim akkaunt akun zhanghu zhanghao gestion dossiers infos informations mes renewals voicemail
		mailservice mailupdate webmails inbox reglement solde`},
	{Urgent, `update updates updated updating upgrade upgraded aktualisierung aktualisieren aktualizacja aktualizuj
		actualizar actualizacion actualisation aggiorna aggiornamento atualizar atualizacao bijwerken suspended suspend
		suspension suspenso suspendu locked unlock unlocked unlocking blocked unblock desbloqueo desbloquear desbloqueio
		sblocco limited limitation restricted restriction restore restoration recovery recover recovering renew renewal
		renouveler renouvelez renouvellement renouv renovar renovacion rinnovo verlengen verlenging expired expire
		expiration expiring alert alerts alerte alerta avviso aviso avisos notice notices notification notifications
		urgent warning important reactivate reactivation reactivar regularisation regulariser regularizar regularize
		regularizacao desativar overdue pending incident incidence problem resolve resolved resolution resolution-center
		reset required deactivate deadline missed failed unpaid outstanding relance rappel redirection redirect
		entsperren freischalten freischaltung gesperrt reaktivierung verlaengern erneuern erneueren umstellung
		benachrichtigung mitteilung hinweis annulation annuler regler bloqueado bloqueo suspendida suspendido sospeso
		bloccato sblocca riattiva riattivazione aggiornare actualiza actualice actualizare ontgrendelen geblokkeerd
		vernieuwen vernieuw hernieuwing guncelle pembaruan gengxin jiesuo dongjie error errors unusual suspicious
		violation appeal appeals cancel cancellation dispute message messages`},
	{Bank, `bank banks banking banken bankieren banque banques banquepopulaire banca banco banche bancario bankowosc
		bankowy ebanking onlinebanking netbank netbanking internetbanking mobilebank homebanking banka bankid pushtan
		phototan securetan smstan mtan mytan chiptan itsme digid idin kontowykaz creditunion sparkasse volksbank
		raiffeisen caisse phototans tokenapp tanverfahren tanapp yinhang hesapbank ebank`},
	{Pay, `pay pays payment payments paying payout payouts paid paiement paiements payer zahlung zahlungen bezahlen
		bezahlung betaling betalen betaal pago pagos pagar pagamento pagamenti pagamentos platnosc platnosci zaplata
		placu platba betalning invoice invoices facture factures facturation rechnung rechnungen fattura factuur faktura
		fatura boleto bill bills card cards carte cartes karte kreditkarte creditcard tarjeta carta cartao karta
		betaalpas pinpas transfer transfers virement ueberweisung przelew bonifico transferencia transaction
		transactions transakcja checkout wero bizum blik bancontact iban pix odeme oplata platezh pembayaran tagihan
		zhifu xinyongka zhuanzhang remittance wire saldo saque recarga recarregar segundavia booking bookings
		reservation reservations cadeaukaart`},
	{Refund, `refund refunds refunded reimbursement remboursement remboursements rembourser erstattung rueckerstattung
		rueckzahlung reembolso reembolsos devolucion rimborso rimborsi zwrot zwrotpodatku teruggave terugbetaling
		teruggaaf restituicao restitucion compensation indemnisation indemnite primes rebate rebates taxrefund stimulus
		relief benefit benefits allowance aide aides bonifica subsidy dotacja chequeenergie cheque steuererstattung
		steuerbescheid energybill energyrebate compensations kompensaciya kompensaciyu vyplata vyplaty iade auxilio
		beneficio beneficios bantuan bansos subsidi tuikuan basvuru taxrefunds rebateform grant`},
	{Parcel, `parcel parcels package packages packet delivery deliveries deliver delivered redelivery reschedule
		shipment shipments shipping ship tracking track tracker trackpackage livraison livraisons livrer colis monpaquet
		moncolis suivi suivis relais chronopost paket pakete paketverfolgung sendung sendungsverfolgung zustellung
		lieferung paczka paczki przesylka przesylki dostawa dostawy kurier doreczenie spedizione spedizioni pacco pacchi
		consegna envio envios paquete paquetes entrega entregas pakket pakketten bezorging bezorgen verzending zending
		zasilka zasielka doruceni csomag kuldemeny colete livrare kargo gonderi paketti lahetys pakke levering postal
		courier correo encomenda rastreamento rastreio seguimiento postage mailbox lockers usps ups couriers cargo
		logistics logistic freight expedition shipper shippings kurir paczkomat paczkomaty odbierz odbior dispatch
		undelivered redeliver reattempt reshipping dostavka kuaidi wuliu dingdan yunfei pickup`},
	{Fee, `customs custom douane douanes douanier zoll zollgebuehr aduana aduanas dogana doganale celny tax taxes taxe
		impot impots impotsgouv steuer steuern finanzamt imposta tributo tributos impuesto impuestos podatek podatkowy
		belasting belastingdienst skat vergi toll tolls tollroad etoll peaje pedaggio peage telepeage maut ezpass
		fastrak sunpass ipass fine fines amende amendes antai bussgeld multa multas multe mandat mandaty boete cjib
		penalty parking stationnement contravention infraction infractions fee fees frais gebuehr vignette critair
		charge charges debt tollservices tollbill unpaidtoll taxreturn detran ipva cnh shuiwu aduanero`},
	{Official, `gov gouv gouvernement govt government govuk gob gub overheid mygov myid bund federal ministry ministere
		ministerio minister ministerstwo police polizei policia polizia policja interpol justice justicia tribunal
		prefecture republique etat ameli assurancemaladie assurance maladie cpam vitale cartevitale macartevitale
		carte-vitale mutuelle sante securitesociale secu caf urssaf dgfip hmrc dvla irs ssa nhs medicare dmv inps
		agenzia entrate spid carteidentite carteid agencia tributaria sede electronica hacienda seguridadsocial dgt
		clave elster bafoeg bafog obywatel gosuslugi epuap zus krs passport passeport visa visas evisa eta esta
		immigration license licence permit france-connect franceconnect license-renewal pension cpf compteformation
		formation chomage france-travail registry evisas visaonline indianvisa travelvisa visaservice greencard embassy
		consulado ambassade`},
	{Prize, `gift+ gifts gifting giftcard giftcards prize prizes winner winners winning reward rewards rewarded bonus
		bonuses giveaway giveaways give giving claim claims claiming claimed claimable freebie promo promos promotion
		promocja promocao promocion voucher vouchers coupon coupons lottery lotto loterie loteria jackpot sweepstake
		raffle sorteo lucky luckydraw gewinn gewinner gewinnspiel premio premios premi nagroda konkurs wygrana cadeau
		concours surprise birthday anniversary drop+ drops airdrop airdrops airdropped survey ankieta quiz umfrage
		enquete christmas halloween double doubling doubler x2 redeem redemption cashback resgate resgatar
		resgatarpontos pontos puntos points punti punkte desconto descontos cupom cupons kampanya hediye odul podarok
		podarki priz hadiah undian klaim pemenang kupon kuota jiangli lingqu duihuan kazandiniz freegift luckywheel
		spinwheel winnings promocje okazje`},
	{Crypto, `crypto cryptos cryptocurrency airdrop airdrops wallet wallets walet token tokens tokenize tokensale defi+
		dapp+ dapps dex coin+ coins bitcoin bitcoins btc+ eth ether ethereum erc20 bnb usdt+ usdc tether xrp ripple
		solana doge dogecoin shib shiba ada cardano polkadot matic polygon arbitrum avax blockchain blockchains chain
		chains onchain ledger ledgerlive metamask trezor trustwallet uniswap pancake pancakeswap sushiswap opensea swap+
		swaps swapping staking stake staked nft+ nfts web3+ web3js mint minting mining miner miners miningpool
		cloudmining presale mainnet testnet layer2 bridge bridges hodl satoshi walletconnect launchpad launchpool
		liquidity protocol multichain phantom keplr elon musk elonmusk vitalik saylor microstrategy binance coinbase
		kraken dao metaverse trx kucoin bybit qianbao tradecoin launch beta trump tesla usd vault crypt bitcoinera`},
	{Connect, `synchronization synchronizer synchronisation resync connect connects connected connecting connection
		connector sync+ syncs synced syncing synchronize synchronise rectify rectification rectifier rectifying restore
		restoring fix+ fixer fixing fixes debug debugger node+ nodes dappnode seed phrase seedphrase recoveryphrase
		mnemonic privatekey migrate migration migrating import resolver revoke revokecash resolutions whitelist
		whitelisting troubleshoot troubleshooting dappconnect decentralized decentralised decentral integrate
		integration interlink linking allocation eligibility eligible registration snapshot rpc issues chainlist merge
		upgradewallet handshake initialize normalize validating portals`},
	{Invest, `invest invests investing investment investments investor investors investir investissement investition
		inversion inversiones investimento inwestycje inwestuj inwestowanie trade trades trader traders trading tradings
		forex fx fxpro profit profits profitable profitmaker earn earning earnings income incomes passive capital
		capitals wealth wealthy rich richer millionaire fortune fortunes finance finances financial financials fintech
		funds fund funding asset assets stock stocks option options binary broker brokers brokerage markets market hedge
		equity equities yield dividend dividends portfolio roi rendite revenus rendement epargne livret zysk zyski
		zarobki zarabiaj zarabianie kapital kapitalo gewinne bitprofit cryptotrade immediate quantum nexus prime apex
		edge flex velar neo ai gpt+ bot bots autotrade copytrade signal signals vest ventures pips gains margin leverage
		exchange tradefx algo algorithm quantex quant holdings hedgefund traide tradex tradeai aitrade tradepro fxtrade
		forextrade copytrading investplatform investra invex robot inwest dochod pasywny geld verdienen anlegen festgeld
		tagesgeld finanz finans finanse money million millions ganar dinero ganancias inversor investimentos investiment
		lucro lucros renda investire guadagno guadagni beleggen belegging winst yatirim kazanc zarabotok dohod
		investitsii pribyl touzi licai jinrong caifu gupiao waihui qihuo zhengquan yingli shouyi treasury bitcointrader
		kapit finrev quantumai`},
	{Support, `support supports supporting supportteam helpdesk helpline helpcenter helpcentre help+ helper helping
		hotline service services serviceclient servicedesk servizio servicio servicos servico serwis care customercare
		desk assist assistance assistenza assistencia asistencia soporte suporte kundendienst aide center centre centro
		centrum contact contacts contactus kontakt callcenter livechat technicien technician techsupport ticket tickets
		pomoc hilfe ayuda ajuda klantenservice servicecenter agent team itdesk itsupport layanan kefu fuwu helpnumber
		phonenumber contactnumber customerservice tollfree number`},
	{Work, `job jobs hiring hire hired career careers recruit recruiting recruitment recruiter vacancy vacancies
		employment remotejob remotework parttime freelance apply applying applyto apply-now application applications
		applicant candidature praca emploi trabajo trabalho lavoro stellenangebot workfromhome homeoffice salary payroll
		hr paystub zhaopin jianzhi lowongan vakansiya vakansii rabota`},
	{Romance, `dating date dates datings singles single sexy sex hookup hookups cougar cougars milf milfs flirt flirts
		fling flings love lover lovers romance match matchphotos matches brides bride girls girl hotties hottie lonely
		naughty affair affairs escort escorts webcam cams nudes nude onlyfans sugardaddy sugarbaby plancul rencontre
		rencontres bekanntschaft partnersuche swinger tinder asiancharm tryst secretdate horny adultfriend nextdoor
		nearby matures sexkontakt seitensprung ontmoeting encuentros encontros tchat soulmate crush ladies wives jodoh
		znakomstva randki citas incontri cupid`},
	{Shop, `outlet outlets sale sales sold cheap cheapest replica replicas discount discounted discounts clearance
		wholesale shop shops shopping shoponline store stores storeonline buy buying buyer deals deal offer offers offre
		offres oferta ofertas oferty offerta offerte angebot angebote rabatt rabat sconto sconti soldes saldi rebajas
		uitverkoop korting wyprzedaz boutique tienda negozio butik winkel sklep magasin kaufen acheter comprar comprare
		kopen kup sneakers shoes scarpe schuhe chaussures zapatos zapatillas schoenen buty handbag handbags bags jerseys
		jersey jordans yeezy warehouse factory auction superdeal blackfriday tees+ tee shirt tshirt hoodie clothing
		apparel jacket jackets jakke boots bottes stiefel botas laarzen boty obuwie ayakkabi megastore closeout
		liquidation lagerverkauf ausverkauf svendita destockage liquidacion factoryoutlet salg alennus akcio akcia
		promocie ucuz indirim skidka rasprodazha diskon murah obral toko belanja youhui dazhe shangcheng luxury jewelry
		jewellery furniture gadget trend order orders fashion`},
	{Cheat, `free gratis gratuit gratuits gratuito kostenlos darmowe darmowy hack+ hacks hacked hacker hackers hacking
		hackz cheat cheats cheater crack cracks cracked keygen generator generators generate unlimited codes code
		redeemcode serial serials warez torrent torrents piratage pirater mod mods modapk apk apks spy spyapp spyware
		unlocker injector aimbot trainer followers likes robux vbucks`},
	{Gaming, `nitro nitros nitr skin+ skins hypesquad hypesquads hypeevent hype moderator moderators moderation academy
		csgo cs2 cs-go counterstrike tradeoffer knife knives case cases roll roulette robux vbucks pubg valorant dota
		dota2 gaming gamer esport esports tournament tournaments faceit fortnite minecraft roblox steam discord twitch
		boost boosts boosting event events invite invites invitation invit vote voting join joining form forms formulary
		formulaire partner exam certificate inventory tradeup community communities collab collabs collabland extension
		extensions freefire freeskins freecoins topup vip exclusive huodong golos golosovanie tiktoklikes likers
		instafollowers meta+`},
	{Software, `driver drivers download downloads installer install setup activator activators kmspico updater cleanup
		optimizer emulator jailbreak repack repacks fullversion crackeado file files upload uploads printers adblock
		soft executor portable codec converter driverupdate software`},
	{Gamble, `casino casinos kasino kazino slots gacor maxwin togel judi bandar bets betting bingo bahis canlibahis
		iddaa poker apuestas apostas zaklady bukmacher spin+ spins freespins caipiao qipai bocai duchang vegas gamble
		gambling sportsbook`},
	{Loan, `loan loans lending lender lenders credit credits credito creditos kredit kredite kredyt kredyty pozyczka
		pozyczki chwilowka chwilowki prestamo prestamos emprestimo emprestimos pinjam pinjaman pinjol danatunai tunai
		uang duit microcredit zaim zaym zaimy krediti darlehen lening leningen prestito prestiti finanziamento
		finanzierung financement hitel kolcson cicilan paylater cashadvance payday fastcash instantloan cash jiedai
		daikuan mortgage`},
	{Goods, `pills pharmacy pharmacies pharmacie pharma drugs viagra cialis tadalafil sildenafil levitra xanax oxycodone
		adderall tramadol cannabis psychedelics psychedelic shrooms mushrooms ketamine cocaine researchchem chemical
		chemicals steroid steroids kratom firearm firearms glock guns gunshop ammo ammunition rifles counterfeit fakeid
		buydocs documents fuhrerschein fuehrerschein rijbewijs rijbewijzen permisdeconduire prawojazdy rezeptfrei
		ordonnance farmacia apteka apotheke dispensary 420 cbd thc vape`},
	{Pets, `puppy puppies kitten kittens frenchie frenchies bulldog bulldogs yorkie yorkies teacup doodle doodles
		goldendoodle goldendoodles dachshund dachshunds pomeranian pomeranians chihuahua chihuahuas poodles maltese
		mainecoon mainecoons ragdoll ragdolls parrots welpen rottweiler corgi kennel kennels cattery forsale`},
	{harmless, `accessibility accessible accessories accessory accessoires partnership partnerships contactform
		stockbridge enbridge bundesliga ministries childcare eventually eventhire membership memberships bankruptcy
		bankrupt embankment riverbank payette paysage paysages paysan parcelle cardiology cardiologist cardigan cardiff
		cartesian tradesman tradesmen tradition traditional traditions transferable loginext tokenring coinage coincide
		supporters rewarding marketing marketplace supermarket supermarkets farmersmarket housing shipyard shipwreck
		relationship relationships leadership scholarship friendship township ownership craftsmanship internship
		fellowship dealership gifted formula formulas winery windows connecticut connectivity connections connected-car
		securities networking invitational assetto securityconference clienting profileur servicesector customized
		customize platform platforms transform transformation information informatique performance conference
		conferences difference preference reference references inventory-management financialtimes bridgeport cambridge
		bridgewater academyofart gatekeeper coronavirus cashmere helpful helpless metal metals metall nodejs syncope
		skincare fixed fixture fixtures dropbox cashew helpfulness author authors authority authorities border borders
		recorder recorders disorder disorders shack whack hackney thackeray skinny buskin erskine baskin hoskins trustee
		trustees guarantee guarantees committee committees dapper defiance define defined definition definitions
		definitive deficit prefix suffix crucifix spinner spine raindrop backdrop immigrant immigrants fragrant
		transport transports translate translation translations transit transgender`},
	{Filler, `www com net org info online app apps web site website home page pages portal official officiel offiziell
		oficial ufficiale oficjalny my mon mein meine meu mio mi moj our your votre euer the get go now new live mobile
		mobil mobi desktop plus pro premium id ids inc ltd llc corp corporation group groupe gruppe global international
		intl eu de fr es it nl be pl uk us usa ch at pt cz ro hu se no dk fi ie gr en digital cloud link links click
		server servers system systems main index html htm php https http ww wvw vww co io tv gg me to for and from with
		of on start welcome hello today 24 24h 247 365 2fa view open check checker read here page1 one first next direct
		express office center hub zone area box mail email world europe deutschland france espana italia polska
		nederland suisse schweiz germany spain italy poland portugal canada australia ireland belgique belgie austria
		suomi finland norge norway sverige sweden danmark denmark hungary magyarorszag romania serbia srbija slovenija
		slovenia slovakia hrvatska croatia greece hellas japan turkey turkiye israel latvija latvia eesti estonia
		lietuva lithuania mexico chile colombia argentina brasil brazil bulgaria malaysia singapore philippines
		newzealand osterreich schweizer nederlands hongkong dubai kuwait southafrica`},
}
