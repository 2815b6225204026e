package server

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"assay/host/access/admission"
	"assay/host/auditlog"
	"assay/host/check"
	"assay/host/hosttest"
	"assay/host/installation"
	"assay/host/internal/terminal"
	"assay/host/lineup/fleet"
	"assay/host/store"
	"assay/host/store/postgres/postgrestest"
	"assay/host/store/storetest"
	"assay/host/telemetry"
	"assay/host/web/operator"
	"assay/registry/expect"
)

func TestWarningsOfSettings(t *testing.T) {
	t.Parallel()
	loopback := &net.TCPAddr{IP: net.IPv6loopback, Port: 8080}
	all := &net.TCPAddr{IP: net.IPv4zero, Port: 8080}
	for name, test := range map[string]struct {
		cfg            installation.Config
		address        net.Addr
		forwarded      time.Time
		imported       int
		signs, testing bool
		want           []string
	}{
		"as it should be": {installation.Config{}, loopback, time.Time{}, 1, false, false, nil},
		"on all addresses": {installation.Config{}, all, time.Time{}, 1, false, false,
			[]string{"without TLS", "listens on 0.0.0.0:8080, and no proxy"}},
		"behind a TLS proxy": {installation.Config{URL: "https://assay.example",
			TrustedProxies: []string{"10.0.0.0/8"}}, all, time.Time{}, 1, false, false, nil},
		"with a certificate": {installation.Config{TLSCert: "c.pem", TLSKey: "k.pem"}, all, time.Time{}, 1, false,
			false, []string{"no proxy is trusted"}},
		"behind an untrusted proxy": {installation.Config{}, loopback, time.Now(), 1, false, false,
			[]string{"through a proxy that is not trusted"}},
		"behind another proxy than the trusted one": {installation.Config{TrustedProxies: []string{"10.0.0.0/8"}},
			loopback, time.Now(), 1, false, false, []string{"through a proxy that is not trusted"}},
		"a proxy of last week": {installation.Config{}, loopback, time.Now().AddDate(0, 0, -7), 1, false, false, nil},
		"a first start": {installation.Config{}, loopback, time.Time{}, 0, true, true,
			[]string{"No list", "operator’s key", "test checkout"}},
	} {
		o := &observer{host: &host{cfg: &test.cfg}, address: test.address, signs: test.signs, testing: test.testing,
			forwarded: func() time.Time { return test.forwarded }}
		var got []operator.Warning
		o.warnOfSettings(reading{imported: test.imported}, func(severity operator.Severity, what, do string) {
			got = append(got, operator.Warning{Severity: severity, What: what, Do: do})
		})
		if !slices.EqualFunc(got, test.want, func(w operator.Warning, text string) bool {
			return strings.Contains(w.What, text) && w.Do != ""
		}) {
			t.Errorf("%s: warnings %+v, want %q", name, got, test.want)
		}
	}
}

func TestWarningsOfQueuesAndAudit(t *testing.T) {
	t.Parallel()
	now := time.Now()
	quiet := operator.Queues{Target: installation.CheckTarget}
	chain := func(c operator.Chain) operator.State {
		return operator.State{At: now, Queues: quiet, Audit: operator.Audit{Chains: []operator.Chain{c}}}
	}
	for name, test := range map[string]struct {
		state    operator.State
		problems []string // of signing and pruning
		want     string
	}{
		"nothing": {chain(operator.Chain{Records: 7, Signed: 7, SignAt: now.AddDate(-1, 0, 0)}), nil, ""},
		"a busy host": {operator.State{Queues: operator.Queues{Wait: 2 * installation.CheckTarget,
			Target: installation.CheckTarget}}, nil, "Checks are refused"},
		"a late graph": {operator.State{Queues: operator.Queues{Graph: operator.GraphQueue{Oldest: time.Hour}}}, nil,
			"graph is 1h0m0s behind"},
		"late events": {operator.State{Queues: operator.Queues{Webhooks: operator.WebhookQueue{Due: 1,
			Late: time.Hour}}}, nil, "events have waited for 1h0m0s"},
		"late reviews": {operator.State{Queues: operator.Queues{Reviews: operator.ReviewQueue{Open: 1,
			Oldest: 200 * time.Hour}}}, nil, "Reviews have waited for 8 days"},
		"a damaged chain": {chain(operator.Chain{Number: 4, Damage: "its last record is missing"}), nil,
			"chain 4 is damaged"},
		"an old checkpoint": {chain(operator.Chain{Records: 8, Signed: 7, SignAt: now.Add(-time.Hour)}), nil,
			"no checkpoint of audit chain 0"},
		"no checkpoint ever": {chain(operator.Chain{Records: 8}), nil, "no checkpoint of audit chain 0"},
		"a fresh checkpoint": {chain(operator.Chain{Records: 8, Signed: 7, SignAt: now.Add(-time.Minute)}), nil, ""},
		"a failed signature": {chain(operator.Chain{}), []string{"storing checkpoint: disk full\nmore"},
			"disk full (and 1 more"},
	} {
		o := &observer{host: &host{cfg: &installation.Config{}}, began: now.Add(-time.Hour)}
		var got []string
		add := func(_ operator.Severity, what, do string) {
			expect.That(t, do != "", "%s: nothing to do about %q", name, what)
			got = append(got, what)
		}
		o.warnOfQueues(&test.state, add)
		o.warnOfAudit(&test.state, auditlog.Status{Problems: test.problems}, add)
		expect.That(t, len(got) <= 1 && strings.Contains(strings.Join(got, ""), test.want) &&
			(test.want == "") == (got == nil), "%s: warnings %q, want %q", name, got, test.want)
	}
}

// The page shows all warnings, and how the calls of a layer ended.
func TestStateOfAHost(t *testing.T) {
	t.Parallel()
	o := &observer{host: &host{cfg: &installation.Config{}}, forwarded: func() time.Time { return time.Time{} },
		address: &net.TCPAddr{IP: net.IPv6loopback}}
	var s operator.State
	o.warn(&s, reading{imported: 1}, auditlog.Status{Problems: []string{"storing checkpoint: disk full"}})
	expect.That(t, len(s.Warnings) == 1 && strings.Contains(s.Warnings[0].What, "disk full"), "%+v", s.Warnings)
	var l operator.Layer
	use(&l, &telemetry.LayerUse{Outcomes: map[string]uint64{"scored": 5, "abstained": 4, "trap": 3, "memory": 2}})
	expect.NoDiff(t, "a layer", operator.Layer{Scored: 5, Abstained: 4,
		Failed: map[string]uint64{"trap": 3, "memory": 2}}, l)
}

// The names of receivers are resolved with the servers in ASSAY_DNS.
func TestReceiverResolver(t *testing.T) {
	t.Parallel()
	server := expect.Value(net.ListenPacket("udp", "127.0.0.1:0"))(t)
	defer server.Close()
	resolver := receiverResolver(&installation.Config{DNS: []string{server.LocalAddr().String()}})
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		_, _, _ = server.ReadFrom(make([]byte, 512))
		cancel()
	}()
	_, err := resolver.LookupHost(ctx, "receiver.test")
	expect.That(t, ctx.Err() != nil, "the name server was not queried: %v", err)
	off := &installation.Config{DNS: []string{installation.Off}}
	expect.That(t, receiverResolver(&installation.Config{}) == nil && receiverResolver(off) == nil,
		"without name servers, the resolver is not the system's")
}

func TestDemoKeyThatOthersCanRead(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file := filepath.Join(dir, "demo-key")
	expect.NoError(t, os.WriteFile(file, []byte("assay_x\n"), 0o600))
	expect.NoError(t, os.Chmod(file, 0o640))
	_, err := demoKey(t.Context(), &installation.Config{DataDir: dir}, nil)
	expect.ErrorText(t, "a key that a group can read", err, file+" (mode 640): run chmod 600 "+file)
	expect.NoError(t, os.Chmod(file, 0o600))
	expect.Equal(t, "key", expect.Value(demoKey(t.Context(), &installation.Config{DataDir: dir}, nil))(t), "assay_x")
}

func TestParts(t *testing.T) {
	t.Parallel()
	var calls []string
	add := func(h *host, name string) {
		note := func(call string) { calls = append(calls, call+" "+name) }
		h.add(part{
			Changed:   map[store.Topic]func(){store.TopicKeys: func() { note("keys of") }},
			Erased:    func(subject []byte) { note(fmt.Sprintf("erase %x in", subject)) },
			Obstacles: func() []obstacle { return unless(name, errors.New("absent"), "wait") },
			Problems:  []problems{{func() []string { return []string{name + " is slow"} }, "hurry"}},
			Close:     func() error { note("close"); return errors.New(name) },
		})
	}
	h := &host{}
	add(h, "first")
	h.add(part{}) // turned off
	add(h, "second")
	expect.ErrorText(t, "not ready", h.ready(), "first: absent\nsecond: absent")
	expect.NoDiff(t, "degraded", []string{"first is slow", "second is slow"}, h.degraded())
	notify(h.parts, store.TopicKeys)
	notify(h.parts, store.TopicErasures+" ab")
	expect.ErrorText(t, "closing", h.close(), "second\nfirst")
	expect.NoDiff(t, "calls", []string{"keys of first", "keys of second", "erase ab in first", "erase ab in second",
		"close second", "close first"}, calls)
}

// A host is ready with what was true when it began to hear of changes: an override that is set meanwhile is not missed.
func TestLoadsOnceItHearsOfChanges(t *testing.T) {
	t.Parallel()
	at := postgrestest.Database(t)
	proxy := storetest.NewProxy(t, at)
	keys := hosttest.OpenStore(t, hosttest.DataDir(t), at).Keys
	h := newHost(&installation.Config{}, &terminal.Terminal{}, Options{})
	var err error
	h.log = storetest.Discard()
	h.store, err = store.Open(t.Context(), store.Config{URL: at, DirectURL: proxy.URL, Keys: keys, Logger: h.log})
	expect.NoError(t, err)
	storetest.Close(t, h.store)
	reached := proxy.HoldBack(func(statement string) bool { return statement == "LISTEN assay" }, nil)
	loaded := make(chan bool, 1)
	storetest.Exec(t, storetest.Session(t, at), "INSERT INTO jobs VALUES ('job', now() + interval '1 h')")
	elsewhere := make(chan bool, 1)
	h.add(part{Jobs: jobs{localJobs: {{Name: "job", Every: time.Hour, Shared: true,
		Elsewhere: func() { elsewhere <- true }}}}, Load: func(context.Context) {
		select {
		case <-h.listening:
			loaded <- true
		default:
			loaded <- false
		}
	}})
	go h.load(t.Context(), h.startJobs(t.Context()))
	storetest.Receive(t, "the host to listen", reached)
	proxy.Disconnect()
	expect.That(t, storetest.Receive(t, "the host to load", loaded), "the host loaded before it heard of changes")
	storetest.Receive(t, "the job to be left to another host", elsewhere)
	expect.NoError(t, h.close())
}

// A data directory has one host at a time. One that was killed is in the fleet until it is silent, and every change of
// the lineup waits for it: its next run takes it out. One that drains leaves the seat, and stays in the fleet.
func TestSeat(t *testing.T) {
	t.Parallel()
	dir, ctx := hosttest.DataDir(t), t.Context()
	b := hosttest.OpenStore(t, dir, postgrestest.Database(t))
	start := func(dir, id string, wanted ...string) *seat {
		t.Helper()
		h := &host{cfg: &installation.Config{DataDir: dir}, id: id, store: b.Store}
		expect.NoError(t, expect.ErrorOf(openSeat(ctx, h)))
		t.Cleanup(func() { _ = h.seat.file.Close() })
		expect.NoError(t, expect.ErrorOf(noteHost(ctx, h)))
		expect.NoError(t, expect.ErrorOf(b.Store.BeatHost(ctx, id, id, fleet.State{})))
		var got []string
		for _, h := range expect.Value(b.Store.Hosts(ctx))(t) {
			got = append(got, h.ID)
		}
		expect.NoDiff(t, "hosts", wanted, got)
		return h.seat
	}
	start(t.TempDir(), "host_0", "host_0")
	killed := start(dir, "host_1", "host_0", "host_1")
	expect.NoError(t, killed.file.Close())
	running := start(dir, "host_2", "host_0", "host_2")
	second := &host{cfg: &installation.Config{DataDir: dir}, terminal: terminal.Silent}
	log := expect.Value(openLog(ctx, second))(t)
	_, err := openSeat(ctx, second)
	expect.ErrorText(t, "a second host", err, "another host runs in the data directory "+dir)
	expect.NoError(t, log.Close())
	expect.Equal(t, "what a second host logs", hosttest.Logged(dir, "stopped"), "")
	expect.NoError(t, running.leave())
	start(dir, "host_3", "host_0", "host_2", "host_3")
	expect.NoError(t, running.leave()) // at its end, when another has the seat
	_, err = openSeat(ctx, &host{cfg: &installation.Config{DataDir: dir}})
	expect.ErrorText(t, "a third host", err, "another host runs")
}

func TestMain(m *testing.M) { os.Exit(hosttest.Main(m)) }

// accepted counts how many of n uses at once are accepted.
func accepted(n int, take func() error) (count int) {
	for range n {
		if take() == nil {
			count++
		}
	}
	return count
}

func TestRates(t *testing.T) {
	t.Parallel()
	pro, _ := check.PlanNamed("pro")
	r := newRates(map[string]int{"pro": 12, installation.PublicRate: 24, installation.NetworkRate: 24}, nil, nil)
	now, at := time.Now(), netip.MustParsePrefix
	r.limiter = admission.NewLimiter(func() time.Time { return now })
	use := func(key string, quota int) int {
		p := pro
		p.Quota = quota
		return accepted(50, func() error { return r.TakeKey(check.Caller{Account: "acct_1", Key: key, Plan: p}) })
	}
	checks := func(key string, quota, n int) int {
		p := pro
		p.Quota = quota
		return accepted(n, func() error { return r.TakeCheck(check.Caller{Account: "acct_1", Key: key, Plan: p}) })
	}
	for _, test := range []struct {
		name      string
		got, want int
	}{
		{"a month's checks and those that the quota refuses", checks("key_1", 50, 200), 51},
		{"a quota that is too large to use at once", checks("key_2", pro.Quota, 2000), maxBurst + 1},
		{"a very large quota", checks("key_3", 1<<40, 2000), 2000},
		{"a key", use("key_1", pro.Quota), 1},
		{"another key of the account", use("key_2", pro.Quota), 1},
		{"a lower quota", use("key_3", 1), 1},
		{"a quota of ten times the plan's", use("key_4", 10*pro.Quota), 10},
		{"a quota without a bound", use("key_5", 1<<40), 50},
		{"a network", accepted(9, func() error { return r.TakeNetwork(at("192.0.2.7/32")) }), 2},
		{"the same network", accepted(9, func() error { return r.TakeNetwork(at("192.0.2.8/32")) }), 0},
		{"checks of a network", accepted(9, func() error { return r.takePublic(at("2001:db8:1:2::/64")) }), 2},
		{"another /64 of it", accepted(9, func() error { return r.takePublic(at("2001:db8:1:3::/64")) }), 0},
		{"each of 200 other networks", accepted(200, func() func() error {
			n := byte(0)
			return func() error {
				n++
				return r.takePublic(netip.PrefixFrom(netip.AddrFrom4([4]byte{10, n, 0, 1}), 32))
			}
		}()), 200},
		{"no address", accepted(9, func() error { return r.TakeNetwork(netip.Prefix{}) }), 2},
	} {
		expect.That(t, test.got == test.want, "%s: %d uses at once were accepted, want %d", test.name, test.got,
			test.want)
	}
	none := newRates(map[string]int{}, nil, nil)
	r = none
	expect.Equal(t, "checks accepted without limits", checks("key_1", 50, 1000), 1000)
	n := accepted(1000, func() error { return none.takePublic(netip.Prefix{}) })
	expect.That(t, n == 1000, "without limits, %d of 1000 uses were accepted", n)
}

// A network's flood without a key is refused before the database. An address that has used up its hourly checks is
// refused before that, and takes nothing from its neighbours.
func TestPublicLimit(t *testing.T) {
	t.Parallel()
	s := hosttest.OpenStore(t, hosttest.DataDir(t), postgrestest.Database(t)).Store
	p := publicLimit{s, newRates(map[string]int{installation.PublicRate: 13 * 12}, nil, nil)}
	now := time.Now()
	p.rates.limiter = admission.NewLimiter(func() time.Time { return now })
	take := func(address string) (ok bool, err error) {
		_, ok, err = p.Take(t.Context(), netip.MustParsePrefix(address))
		return ok, err
	}
	for i := range 300 {
		ok, err := take("192.0.2.7/32")
		expect.Must(t, err == nil && ok == (i < 10), "check %d of an address: %v, %v", i+1, ok, err)
	}
	for _, want := range []bool{true, true, false} {
		ok, err := take("192.0.2.8/32")
		expect.That(t, ok == want && errors.As(err, new(*admission.RateError)) != want, "a neighbour: %v, %v, want %v",
			ok, err, want)
	}
}
