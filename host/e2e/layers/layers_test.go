package layers

import (
	"context"
	"log/slog"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"assay/host/access/keyring"
	"assay/host/check"
	"assay/host/entity"
	"assay/host/hosttest"
	"assay/host/installation"
	"assay/host/internal/terminal"
	lineups "assay/host/lineup"
	"assay/host/sandbox"
	"assay/registry"
	"assay/registry/expect"
)

func TestMain(m *testing.M) { os.Exit(hosttest.Main(m)) }

// BenchmarkLayers measures each first-party layer in the sandbox, restored after each call and not.
func BenchmarkLayers(b *testing.B) {
	box := sandboxOf(b, nil)
	for _, m := range hosttest.BuiltLayers(b) {
		facts := benchFacts(b, m.Manifest)
		for way, open := range map[string]func(context.Context, registry.Module) (*sandbox.Plugin, error){
			"restored": box.Open, "shared": box.OpenShared} {
			b.Run(m.Manifest.Name+"/"+way, func(b *testing.B) {
				plugin := expect.Value(open(b.Context(), m))(b)
				defer plugin.Close(b.Context())
				for i := 0; b.Loop(); i++ {
					expect.Value(plugin.Score(b.Context(), check.Input{Entity: facts[i%len(facts)]}))(b)
				}
			})
		}
	}
}

// benchFacts returns the facts of ordinary values of the types that a layer scores.
func benchFacts(b *testing.B, m registry.Manifest) []entity.Facts {
	values := map[string][]string{
		"domain": {"google.com", "shop-4711.example-store.com", "paypa1-secure-login.xyz", "münchen-blumen.de"},
		"email":  {"jane.doe@gmail.com", "customer.42@mail.example.org", "info@kleine-werkstatt.de"},
		"phone":  {"+33612345678", "+4930901820", "+12125550123"},
		"iban":   {"DE89370400440532013000", "FR1420041010050500013M02606"},
	}
	var facts []entity.Facts
	for _, kind := range m.Entities {
		for _, v := range values[kind] {
			facts = append(facts, expect.Value(entity.Parse(entity.Type(kind), v, ""))(b).Facts)
		}
	}
	return facts
}

// TestLayersAreCompiledOnce checks that test processes find the code that the program of tests has compiled.
func TestLayersAreCompiledOnce(t *testing.T) { //nolint:paralleltest // before other tests, which could compile them
	box := sandboxOf(t, []string{"none"})
	for _, m := range hosttest.BuiltLayers(t) {
		expect.NoError(t, box.Prepare(t.Context(), m))
	}
}

// sandboxOf returns a sandbox with the layers that are compiled, which outlives the test.
func sandboxOf(t testing.TB, compiler []string) *sandbox.Sandbox {
	t.Helper()
	dir := hosttest.SharedDir(t)
	return sandbox.New(sandbox.Config{CacheDir: filepath.Join(dir, "compiled"), Instances: 1, Compiler: compiler,
		CacheKey: expect.Value(keyring.Load(filepath.Join(dir, "secret")))(t).Cache, Logger: slog.Default()})
}

// plugins are first-party layers that tests have opened, by digest.
var plugins sync.Map

// opened returns a layer that all tests share. Its instance is restored after each call.
func opened(t testing.TB, m registry.Module) *sandbox.Plugin {
	t.Helper()
	once, _ := plugins.LoadOrStore(m.Digest, sync.OnceValues(func() (*sandbox.Plugin, error) {
		return sandboxOf(t, nil).Open(context.Background(), m)
	}))
	return expect.Value(once.(func() (*sandbox.Plugin, error))())(t)
}

// moduleIn returns the layer in a file.
func moduleIn(t *testing.T, file string) registry.Module {
	t.Helper()
	return expect.Value(registry.OpenModule([]byte(hosttest.ReadText(t, file))))(t)
}

// members returns layers with their places in the default lineup.
func members(t testing.TB, names ...string) []check.Member {
	t.Helper()
	document := expect.Value(registry.DefaultLineup())(t)
	var all []check.Member
	for _, m := range hosttest.BuiltLayers(t) {
		if slices.Contains(names, m.Manifest.Name) {
			all = append(all, lineups.NewMember(*document.Layer(m.Manifest.Name), opened(t, m)))
		}
	}
	expect.Must(t, len(all) == len(names), "%d of the layers %v were found", len(all), names)
	return all
}

// TestBudgets computes the most fuel that each first-party layer burns on long and hostile input. Its budget is at
// least twice that, so that no legal input ends a layer, and at most twenty times, so that a broken layer is noticed.
func TestBudgets(t *testing.T) {
	t.Parallel()
	for _, m := range hosttest.BuiltLayers(t) {
		t.Run(m.Manifest.Name, func(t *testing.T) {
			t.Parallel()
			box := sandboxOf(t, nil)
			plugin := expect.Value(box.OpenShared(t.Context(), m))(t) // the guest collects garbage, which costs more
			defer func() { expect.NoError(t, plugin.Close(t.Context())) }()
			most, on := int64(0), ""
			for _, kind := range m.Manifest.Entities {
				for _, value := range costlyValues()[entity.Type(kind)] {
					e, err := entity.Parse(entity.Type(kind), value, "")
					expect.Must(t, err == nil, "%s: %v", value, err)
					maps.Copy(e.Facts, longFacts())
					result, err := plugin.Score(t.Context(), check.Input{Entity: e.Facts})
					expect.Must(t, err == nil, "%s: %v", value, err)
					if result.Fuel > most {
						most, on = result.Fuel, value
					}
				}
			}
			t.Logf("budget of %d units, at most %d burned, on %s", m.Manifest.BudgetFuel, most, on)
			if budget := m.Manifest.BudgetFuel; budget < 2*most || budget > 20*most {
				t.Errorf("the budget of %d is not 2 to 20 times the %d units burned on %s", budget, most, on)
			}
		})
	}
}

// costlyValues returns entities on which layers burn much fuel. The unreadable ones were found by search.
func costlyValues() map[entity.Type][]string {
	const label = "a1-ba1-ba1-ba1-ba1-ba1-ba1-ba1-ba1-ba1-ba1-ba1-ba1-ba1-ba1-babc."
	domains := []string{
		strings.Repeat(label[len(label)-64:], 3) + strings.Repeat("a", 57) + ".com",
		strings.Repeat("a.", 125) + "com",
		strings.Repeat("login-", 9) + "bank." + strings.Repeat("secure.", 25) + "xyz",
		"runescapearts.forums.events.quitting.giveaway.gul.org-fm-678-223-176-122345492-182-342.ru",
		"администрация-города-змеиногорска.рф",
		"logincom-4711ъρsecure.-ρ.рф",
		"amazon-sαɡserviceıareрф.раρacжountlogin-g00gleӏทยmail.kx-microsoftsecureο--comßяcom-wßlletka-a.login." +
			"paypa1rnserviceßfreeßłраıka-signinsptort.1sъppor4vvcrypto.ไทยvvrefund.com",
		"r--tb.faeeßpaüӏbztlñq-bsöqaщlacqρsρӏяοm.ap0ñpmüiaeñporжжο1üiémarnəllpрคน.ไ4bubß.qทlcobłgsяlsярll1fжqɑmɡfыé." +
			"0əuéxñ4t-ñ4üжłñöы-ueüööɡiɡiɡ日日ρéñɡɡüɡ.wwk",
		"ask--4-x.con---sver-car1res-ы---.lbacconblogxb--m-lไ0cwlไ-vbm--ai.ρkv--şck-şşfv-wsmc-şrr--4-m-bam-" +
			"şwalet1c.lic.pacrwa.ж-аver--cаcыfraßß-bаsаıbanрa--ßiӏ-ss-com-lu.u.-suppactvkcrypt11ท-0ท-0vยยvrefund.om",
		"раъу.ъısupport-secureραmail.confirm-qñ.zzярф.paypal.ıж.microsoft.wαlletrn.amazon.аррӏеnetflixwinnernetflix" +
			"giftənɑvvаррӏе.xyz",
	}
	emails := []string{
		strings.Repeat("a", 64) + "@" + strings.Repeat("b.", 80) + "com",
		"press@connects-forms-events-moderators-hypesquad.com",
		"secur.şəww.mai.accountwalletzzłéارسیrnbn4tορبafree-1@paypa1lo-gяnя-şъраupdateяmicrosoftmait1mail." +
			"paypa1-cosoftai1ail.payua1-comßcßlfreoftmiъmail.paypaρ-combankßclfreaщmcoßßßcl-eeüamazonщzz.ارسی.de",
		"giftsupport.loginwecv.bbkavbizxcnbvevivbжseavbicmup-sdaы1əfρ@gwg-gßə-αgρluamac-.ɡßıetɡ-m1woguc-1mgdğaɡ." +
			"-éß-tяp-a.x.sa.ñglgco1-.eunɡcsədmtc-.4-1.srfab.s.wrif-g.ns.qmsb-c.r.e.e.eɡuɡşcş.apeop",
		"ไcยəkn-s4ρ1roiztrvieamğilъwnecptétlaer@knp1.ɡfрuurqɡaa日ßna41nblß1t0sgu" +
			"o-1яc-щtewe.sαfbаßsъütжßuğpрӏӏауоyvzuы." + "-eks1x日ӏü1日4cъ日-xw0ӏü1oӏso4nvvӏüαаареgv.ka-oaapplbe-ooop",
	}
	return map[entity.Type][]string{
		entity.Domain: domains,
		entity.Email:  emails,
		entity.Phone:  {"+12842298378", "+33-065538284", "+61491570155", "+776164362237391"},
		entity.IBAN: {"BR1800360305000010009795493C1", "MT84MALT011000012345MTLCAST001S",
			"FR7618329000011011112000191", "DE49370400400445332000", "XX89370400440532013000ABCDEFGHIJKL"},
	}
}

// longFacts returns every fact that lookups can add, as long as they make it.
func longFacts() entity.Facts {
	name, names := strings.Repeat(strings.Repeat("a1-b", 15)+"abc.", 4)[:253], make([]string, 8)
	for i := range names {
		names[i] = string(rune('a'+i)) + name[1:]
	}
	repeated := func(n int, text string) string { return strings.Join(slices.Repeat([]string{text}, n), " ") }
	return entity.Facts{
		"dns.status": "ok", "dns.zone": "ok", "dns.networks": "32", "dns.ttl": "1", "dns.alias": name,
		"dns.a": repeated(8, "255.255.255.254"), "dns.aaaa": repeated(8, "2606:2800:21f:cb07:6820:80da:af6b:8b2c"),
		"dns.special": "unspecified loopback private shared link_local documentation benchmark multicast reserved",
		"dns.ns":      strings.Join(names, " "), "dns.mx": strings.Join(names, " "), "dns.spf": "pass_all",
		"dns.dmarc": "none", "dns.dnssec": "bogus",
		"net.asn": repeated(8, "AS4294967295"), "net.org": strings.Repeat("x", 80), "net.country": repeated(16, "DE"),
		"net.listed":        repeated(32, "zen.spamhaus.org=127.0.0.2"),
		"net.domain_listed": repeated(32, "dbl.spamhaus.org=127.0.1.4"),
		"rdap.found":        "yes", "rdap.created": "1995-08-14", "rdap.age_days": "3", "rdap.expires": "2026-08-13",
		"rdap.registrar": strings.Repeat("x", 80), "rdap.status": repeated(32, "client_renew_prohibited"),
		"similar.nearest": name, "similar.part": "domain", "similar.distance": "1", "similar.letters": "63",
		"similar.category": "phishing", "similar.list": strings.Repeat("x", 200),
		"graph.customers": "100000", "graph.seen": "100000", "graph.blocked_share": "65", "graph.first_seen_days": "4",
		"graph.neighbours": "10000", "graph.neighbour_risk": "100",
		"history.first_seen_days": "4", "history.seen_1h": "100000", "history.seen_24h": "100000",
		"history.own_first_seen_days": "4", "history.own_seen_1h": "64", "history.own_seen_24h": "64",
		"feed.listed": repeated(8, "URLhaus, CERT Polska, Phishing Army"), "feed.lists": "24", "feed.match": "exact",
		"feed.category": "phishing", "feed.days": "12",
	}
}

// known is a check.Collector of facts that a test changes between checks.
type known struct{ facts entity.Facts }

func (k *known) Collect(context.Context, string, entity.Entity, []string) (entity.Facts, []string, error) {
	return k.facts, nil, nil
}

// explainer returns a checker with the layers of the default lineup that read good evidence.
func explainer(t *testing.T) (*check.Checker, *known, registry.LineupDocument) {
	t.Helper()
	document := expect.Value(registry.DefaultLineup())(t)
	live, looked := &check.Live{}, &known{}
	live.Swap(check.NewLineup(1, lineups.ByType(document.Bias), check.Bands(document.Bands),
		members(t, "feeds", "graph", "network", "standing")))
	checker := installation.NewChecker(live, nil,
		installation.FailurePrinter{Terminal: &terminal.Terminal{Err: t.Output()}})
	checker.Collector, checker.Deadline = looked, time.Minute
	return checker, looked, document
}

// TestGoodEvidenceClears checks that each fact that speaks for an entity turns a review into an allow, with the real
// layers at their default weights. Without the fact, the entity is just reviewed.
func TestGoodEvidenceClears(t *testing.T) {
	t.Parallel()
	checker, looked, document := explainer(t)
	bands := check.Bands(document.Bands)
	domain, email := check.Field{Type: entity.Domain, Value: "blumenwiese.de"}, check.Field{Type: entity.Email,
		Value: "jane@blumenwiese.de"}
	phone, iban := check.Field{Type: entity.Phone, Value: "+4930901820"}, check.Field{Type: entity.IBAN,
		Value: "DE89370400440532013000"}
	old := entity.Facts{"rdap.age_days": "6200", "rdap.created": "2009-12-01"}
	unchanged := entity.Facts{"rdap.age_days": "6200", "rdap.created": "2009-12-01", "rdap.unchanged_days": "412"}
	popular := entity.Facts{"feed.rank": "8410", "feed.rank_list": "Tranco"}
	good := entity.Facts{"feed.good": "Suppliers", "feed.good_match": "exact"}
	met := entity.Facts{"graph.customers": "20", "graph.blocked_share": "0", "graph.first_seen_days": "200"}
	protected := entity.Facts{"dns.mx": "mx.blumenwiese.de", "dns.spf": "fail", "dns.dmarc": "reject"}
	const layer = "standing"
	for name, tc := range map[string]struct {
		field  check.Field
		facts  entity.Facts // nil: the evidence is in the value
		points int          // that the fact is worth at least
		text   string       // that the layer says of it
	}{
		"age of a domain":         {domain, old, 45, "Registered since 2009"},
		"age of a mail domain":    {email, old, 22, "blumenwiese.de has been registered since 2009"},
		"consistency of a domain": {domain, unchanged, 55, "Name servers and registrar unchanged for 412 days"},
		"rank of a domain":        {domain, popular, 50, "On the Tranco list of popular sites (rank 8,410)"},
		"rank of a mail domain": {email, popular, 25,
			"blumenwiese.de is on the Tranco list of popular sites (rank 8,410)"},
		"good list of domains":     {domain, good, 45, "Listed as good by Suppliers"},
		"good list of addresses":   {email, good, 45, "Listed as good by Suppliers"},
		"good list of numbers":     {phone, good, 45, "Listed as good by Suppliers"},
		"good list of accounts":    {iban, good, 45, "Listed as good by Suppliers"},
		"tenure of a domain":       {domain, met, 18, "Known to at least 20 customers, for 200 days, never blocked"},
		"tenure of an address":     {email, met, 18, "Known to at least 20 customers, for 200 days, never blocked"},
		"tenure of a number":       {phone, met, 18, "Known to at least 20 customers, for 200 days, never blocked"},
		"tenure of an account":     {iban, met, 18, "Known to at least 20 customers, for 200 days, never blocked"},
		"bank code of an account":  {iban, nil, 15, "Bank code “37040044” belongs to a bank of DE"},
		"mail set-up of a domain":  {domain, protected, 8, "Has forged mail refused (DMARC reject, SPF)"},
		"mail set-up of a mailbox": {email, protected, 4, "blumenwiese.de has forged mail refused (DMARC reject, SPF)"},
	} {
		explain := func(facts entity.Facts) []check.Outcome {
			t.Helper()
			looked.facts = facts
			return expect.Value(checker.Explain(t.Context(), tc.field, ""))(t).Layers
		}
		without, with := explain(nil), explain(tc.facts)
		at := slices.IndexFunc(with, func(o check.Outcome) bool { return o.Layer == layer })
		if tc.facts == nil {
			without[at].Contribution = 0
		}
		bias := math.Log(float64(bands.Review)) - math.Log(float64(100-bands.Review))
		for _, o := range without {
			bias -= o.Contribution
		}
		before, after := check.Fuse(bias, bands, without), check.Fuse(bias, bands, with)
		expect.That(t, before.Verdict == check.Review && after.Verdict == check.Allow && after.Score < before.Score,
			"%s: %s (%d) without it and %s (%d) with it, want a review and an allow", name, before.Verdict,
			before.Score, after.Verdict, after.Score)
		item := slices.IndexFunc(document.Layers, func(l registry.LineupLayer) bool { return l.Layer == layer })
		worth := document.Layers[item].Weight.For(string(tc.field.Type)) * float64(tc.points) / 100
		expect.That(t, with[at].Contribution <= -worth+1e-9, "%s: the layer adds %.2f, want at most %.2f", name,
			with[at].Contribution, -worth)
		expect.That(t, slices.ContainsFunc(with[at].Signals, func(s check.Signal) bool { return s.Text == tc.text }),
			"%s: signals %+v, want %q", name, with[at].Signals, tc.text)
	}
}

// TestPrecedence checks in the default lineup that popularity and age, which a hacked site has too, do not clear a
// fresh listing of that very site, and that they do clear a listing that expired.
func TestPrecedence(t *testing.T) {
	t.Parallel()
	checker, looked, _ := explainer(t)
	good := entity.Facts{"feed.rank": "120", "feed.rank_list": "Tranco", "rdap.age_days": "6200",
		"rdap.created": "2009-12-01", "rdap.unchanged_days": "412", "graph.customers": "50", "graph.blocked_share": "0",
		"graph.first_seen_days": "400"}
	listed := func(fresh string) entity.Facts {
		facts := maps.Clone(good)
		maps.Copy(facts, entity.Facts{"feed.listed": "URLhaus", "feed.lists": "1", "feed.match": "exact",
			"feed.days": "200", "feed.fresh": fresh})
		return facts
	}
	for _, field := range []check.Field{
		{Type: entity.Domain, Value: "blumenwiese.de"}, {Type: entity.Email, Value: "jane@blumenwiese.de"},
		{Type: entity.Phone, Value: "+4930901820"}, {Type: entity.IBAN, Value: "DE89370400440532013000"},
	} {
		score := func(facts entity.Facts) *check.Decision {
			looked.facts = facts
			return expect.Value(checker.Explain(t.Context(), field, ""))(t)
		}
		expect.Equal(t, string(field.Type)+", not listed", score(good).Verdict, check.Allow)
		expect.Equal(t, string(field.Type)+", freshly listed", score(listed("yes")).Verdict, check.Block)
		// Numbers and accounts have neither an age nor a rank, so little can clear them.
		if d := score(listed("no")); d.Verdict == check.Block && field.Type == entity.Domain {
			t.Errorf("%s, on a list that expired: %s (%d), want it cleared", field.Type, d.Verdict, d.Score)
		}
	}
}
