// Package drill breaks and changes hosts under load, and compares their records with their answers.
package drill

import (
	"cmp"
	"context"
	"flag"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"assay/host/access/keyring"
	"assay/host/auditlog"
	"assay/host/check"
	"assay/host/e2e/chaos"
	"assay/host/hosttest"
	"assay/host/installation"
	"assay/host/store/postgres/postgrestest"
	"assay/host/store/storetest"
	"assay/registry/expect"
)

// The flags of all drills. Without them, a drill has a short form for go test.
var (
	drillTimes = flag.Int("times", 0, "how often a drill does what it is named for, such as killing a host")
	drillFor   = flag.Duration("for", 0, "how long a drill with random faults takes")
	drillSeed  = flag.Uint64("seed", 0, "seed of random faults; 0: a random one")
)

func TestMain(m *testing.M) { os.Exit(hosttest.Main(m)) }

// newClient returns a client with an account of its own.
func newClient(t testing.TB, b *installation.Backend, plan check.Plan) *chaos.Client {
	t.Helper()
	issued := expect.Value(installation.IssueKey(t.Context(), b.Store, plan, "drill"))(t)
	client := &chaos.Client{Account: issued.Account, Batches: plan.Batch}
	client.SetKey(issued.ID, issued.Secret)
	return client
}

// receiveEvents gives clients' accounts a webhook endpoint whose deliveries the history records.
func receiveEvents(t testing.TB, b *installation.Backend, h *chaos.History, clients ...*chaos.Client) {
	t.Helper()
	secrets := map[string]string{}
	receiver := httptest.NewServer(h.Receiver(func(account string) string { return secrets[account] }))
	t.Cleanup(receiver.Close)
	for _, c := range clients {
		secrets[c.Account] = expect.Value(b.Store.SetEndpoint(t.Context(), c.Account, receiver.URL+"/"+c.Account))(t)
	}
}

// answers returns when hosts answered the calls, in order. One host does not count.
func answers(calls []*chaos.Call, except int) (ends []time.Time) {
	for _, c := range calls {
		if c.Status == http.StatusOK && c.Host != except {
			ends = append(ends, c.Ended)
		}
	}
	slices.SortFunc(ends, time.Time.Compare)
	return ends
}

// startLoad sends checks until the function that it returns has been called, which waits for the last answers.
func startLoad(t testing.TB, load *chaos.Load, workers int, pause time.Duration) (stop func()) {
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { load.Run(ctx, workers, pause) })
	return func() { cancel(); running.Wait() }
}

// awaitRest waits until the hosts of a database have delivered all events and done what else is left.
func awaitRest(t testing.TB, url string) {
	t.Helper()
	conn := storetest.Session(t, url)
	last, same := "", 0
	expect.Until(t, "the hosts to come to rest", func() bool {
		now := storetest.Value[string](t, conn, `SELECT concat_ws(' ', (SELECT sum(seq) FROM audit_heads),
			(SELECT count(*) FROM graph_contributions),
			(SELECT count(*) FROM webhook_events WHERE state = 'pending')) FROM pg_sleep(0.05)`)
		if same++; now != last {
			last, same = now, 0
		}
		return same > 10 && strings.HasSuffix(now, " 0 0") // half a second or more
	})
}

// stopAll stops hosts at the same time.
func stopAll(t testing.TB, hosts ...*hosttest.HostProcess) {
	t.Helper()
	var stopping sync.WaitGroup
	for _, h := range hosts {
		stopping.Go(func() { h.Stop(t, syscall.SIGTERM) })
	}
	stopping.Wait()
}

// compare returns the database after a drill, and reports where it differs from what the clients saw.
func compare(t *testing.T, h *chaos.History, b *installation.Backend, dir, url string) (*chaos.State, []string) {
	t.Helper()
	state := expect.Value(chaos.Read(t.Context(), url))(t)
	differences := chaos.Check(h, state, chaos.Keys{Pseudonym: b.Keys.Pseudonym, Graph: b.Keys.Graph,
		Erased: b.Keys.Erased})
	for _, d := range differences[:min(50, len(differences))] {
		t.Error(d)
	}
	for _, report := range hosttest.OutputJSON[[]auditlog.Report](t, dir, url, "audit", "verify") {
		expect.That(t, report.OK, "audit verify: %+v", report)
	}
	expect.That(t, h.Count(http.StatusOK) != 0, "no check was answered")
	return state, differences
}

var (
	rollingDrain   = flag.Duration("rolling-drain", time.Second, "ASSAY_DRAIN of the hosts of TestRollingRestart")
	rollingRotate  = flag.Duration("rolling-rotate", 0, "after which time its hosts use a new secret; 0: none")
	rollingRetries = flag.Int("rolling-retries", 3, "how often its haproxy tries to connect to a host again")
)

// TestRollingRestart restarts two hosts behind haproxy in turn while clients send checks over connections that they
// keep. No request may be lost, and haproxy repeats none: it only retries connections that could not be opened.
func TestRollingRestart(t *testing.T) {
	t.Parallel()
	haproxy := expect.Program(t, "haproxy", "haproxy")
	database := postgrestest.Database(t)
	var hosts [2]*hosttest.HostProcess
	var dirs [2]string
	start := func(i int) {
		// An address of their own, so that nothing else takes the port while a host is down.
		hosts[i] = hosttest.StartHost(t, dirs[i], database, "--drain="+rollingDrain.String(),
			"--listen="+rollingAddress(i), "--admin-listen=off")
		expect.Equal(t, "the address for operators", hosts[i].Admin, "")
	}
	for i := range hosts {
		dirs[i] = hosttest.DataDir(t)
		start(i)
	}
	b := hosttest.OpenStore(t, dirs[0], database)
	url, history := runHAProxy(t, haproxy), &chaos.History{}
	stop := startLoad(t, chaos.NewLoad(history, []*chaos.Client{newClient(t, b, installation.Unlimited())}, 1,
		func(int) string { return url }), 4, 10*time.Millisecond)
	answered := func() int { return history.Count(http.StatusOK) }
	awaitAnswers := func() {
		before := answered()
		expect.Until(t, "answers", func() bool { return answered() > before+30 })
	}
	rotated := time.Now().Add(*rollingRotate)
	if *rollingRotate > 0 {
		hosttest.Output(t, dirs[0], database, "secret", "rotate", "--in="+rollingRotate.String())
		for _, name := range []string{"secret", "trust"} {
			expect.NoError(t, keyring.ReplaceFile(filepath.Join(dirs[1], name),
				[]byte(hosttest.ReadText(t, filepath.Join(dirs[0], name)))))
		}
	}
	restarts := cmp.Or(*drillTimes, 1) // of each host
	for range restarts {
		for i := range hosts {
			awaitAnswers()
			hosts[i].Stop(t, syscall.SIGTERM)
			start(i)
			expect.Until(t, "haproxy to use both hosts", func() bool {
				response := expect.Value(http.Get(url + "/both-hosts"))(t)
				expect.NoError(t, response.Body.Close())
				return response.StatusCode == http.StatusOK
			})
		}
	}
	if left := time.Until(rotated); *rollingRotate > 0 && left < 0 {
		t.Errorf("the restarts took %v too long: the hosts ran with different keys", -left)
	}
	expect.Until(t, "the new keys", func() bool { return time.Now().After(rotated.Add(time.Second)) })
	awaitAnswers()
	stop()
	busy, lost := history.Count(http.StatusServiceUnavailable), history.Count(0)
	t.Logf("%d restarts with a drain of %v: %d checks answered, %d refused by a busy host, %d unknown, %d lost",
		2*restarts, *rollingDrain, answered(), busy, history.Count(http.StatusInternalServerError), lost)
	expect.That(t, lost == 0, "%d requests were lost", lost)
	awaitRest(t, database)
	stopAll(t, hosts[:]...)
	compare(t, history, b, dirs[0], database)
}

// rollingAddress returns the address of a host. Each process that runs tests has its own.
func rollingAddress(host int) string {
	pid := os.Getpid()
	return fmt.Sprintf("127.%d.%d.%d:%d", 64+pid>>16&63, pid>>8&255, pid&255, 8080+host)
}

// runHAProxy starts haproxy in front of the hosts and returns its URL.
func runHAProxy(t *testing.T, program string) string {
	t.Helper()
	l := expect.Value(net.Listen("tcp", "127.0.0.1:0"))(t)
	defer l.Close()
	socket := expect.Value(l.(*net.TCPListener).File())(t)
	defer socket.Close()
	file := filepath.Join(t.TempDir(), "haproxy.cfg")
	expect.NoError(t, os.WriteFile(file, fmt.Appendf(nil, `defaults
  mode http
  timeout connect 5s
  timeout client 1m
  timeout server 1m
  timeout check 10s
  retries %d
  option redispatch 1
listen assay
  bind fd@3
  monitor-uri /both-hosts
  monitor fail if { nbsrv(assay) lt 2 }
  option httpchk GET /readyz
  http-check expect status 200
  http-reuse always
  default-server check inter 100ms fall 2 rise 2
  server h0 %s
  server h1 %s
`, *rollingRetries, rollingAddress(0), rollingAddress(1)), 0o600))
	cmd := exec.CommandContext(context.WithoutCancel(t.Context()), program, "-db", "-f", file)
	cmd.ExtraFiles = []*os.File{socket}
	cmd.Stdout, cmd.Stderr = t.Output(), t.Output()
	expect.NoError(t, cmd.Start())
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	return "http://" + l.Addr().String()
}
