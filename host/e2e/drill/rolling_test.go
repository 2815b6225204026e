package drill

import (
	"cmp"
	"context"
	"flag"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"assay/host/access/keyring"
	"assay/host/e2e/chaos"
	"assay/host/hosttest"
	"assay/host/installation"
	"assay/host/store/postgres/postgrestest"
	"assay/registry/expect"
)

var (
	rollingDrain   = flag.Duration("rolling-drain", time.Second, "ASSAY_DRAIN of the hosts of TestRollingRestart")
	rollingRotate  = flag.Duration("rolling-rotate", 0, "after which time its hosts use a new secret; 0: none")
	rollingRetries = flag.Int("rolling-retries", 3, "how often its haproxy tries to connect to a host again")
)

// TestRollingRestart restarts two hosts behind haproxy in turn while clients send checks over connections that they
// keep open. No request may be lost, and the ledger must have exactly the answers. haproxy repeats no request: only
// connections that could not be opened are tried again.
func TestRollingRestart(t *testing.T) {
	t.Parallel()
	haproxy, err := exec.LookPath("haproxy")
	if err != nil {
		if haproxy, err = exec.LookPath("/usr/sbin/haproxy"); err != nil {
			t.Skip("needs haproxy: apt-get install haproxy")
		}
	}
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
	for _, h := range hosts {
		h.Stop(t, syscall.SIGTERM)
	}
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
