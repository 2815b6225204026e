//go:build drill && !race

package drill

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"assay/host/e2e/chaos"
	"assay/host/hosttest"
	"assay/host/installation"
	"assay/host/store/storetest"
	"assay/registry/expect"
)

// TestFailover kills the leader of a Patroni cluster under load, again and again. Afterwards everything that was
// answered must be recorded and counted once. It needs Debian's patroni, etcd-server, haproxy and postgresql.
func TestFailover(t *testing.T) {
	d := newFailover(t)
	stop := startLoad(t, d.load, 8, 20*time.Millisecond)
	d.await("answers", d.answering)
	var kills []kill
	for i := range cmp.Or(*drillTimes, 10) {
		leader := d.leader()
		k := kill{machine: i%2 == 1, at: time.Now()}
		leader.kill(k.machine)
		d.await("another leader", func() bool { next := d.leader(); return next != nil && next != leader })
		d.await("the leader to accept writes", d.accepting)
		accepting := time.Now()
		d.await("answers again", func() bool {
			return d.answering() && len(answers(d.history.Since(accepting), -1)) > 0
		})
		k.back = answers(d.history.Since(accepting), -1)[0].Sub(accepting)
		k.gap = d.longestGap(k.at)
		if k.machine {
			leader.start()
		}
		d.await("two synchronous candidates", d.whole)
		kills = append(kills, k)
		t.Logf("failover %d: machine %v, %.2f s without an answer", i+1, k.machine, k.gap.Seconds())
	}
	stop()
	d.finish(kills)
}

// kill is a death of the leader: of Postgres alone, or of everything on its machine.
type kill struct {
	machine bool
	at      time.Time
	gap     time.Duration // the longest time in which no host answered
	back    time.Duration // from the first write that the new leader accepted to the first answer
}

// failover is a Patroni cluster of three nodes behind haproxy, with three hosts.
type failover struct {
	*testing.T
	results results
	dir     string
	owner   *syscall.Credential // of all processes but the hosts; nil: this process's
	nodes   []*node
	etcd    string // host:port
	url     string // of the leader's database, through haproxy
	history chaos.History
	load    *chaos.Load
	backend *installation.Backend
	hosts   []*hosttest.HostProcess
	dirs    []string
}

// await waits for a condition for longer than expect.Until does.
func (d *failover) await(what string, holds func() bool) {
	d.Helper()
	for deadline := time.Now().Add(3 * time.Minute); !holds(); {
		expect.Must(d, !time.Now().After(deadline), "timed out waiting for %s; the logs are in %s", what, d.dir)
		<-time.After(50 * time.Millisecond)
	}
}

// leader returns the node that serves as leader, or nil.
func (d *failover) leader() *node {
	for _, n := range d.nodes {
		if status, _ := n.get("/primary"); status == http.StatusOK {
			return n
		}
	}
	return nil
}

// whole reports whether the leader has a synchronous standby and another one that streams.
func (d *failover) whole() bool {
	leader := d.leader()
	if leader == nil {
		return false
	}
	synchronous, streaming := 0, 0
	_, body := leader.get("/cluster")
	var cluster struct {
		Members []struct{ Role, State string }
	}
	_ = json.Unmarshal(body, &cluster)
	for _, m := range cluster.Members {
		if m.Role == "sync_standby" {
			synchronous++
		} else if m.Role == "replica" && (m.State == "running" || m.State == "streaming") {
			streaming++
		}
	}
	return synchronous == 1 && streaming == 1
}

// answering reports whether every host answered a check within the last second.
func (d *failover) answering() bool {
	recent := map[int]bool{}
	for _, c := range d.history.Since(time.Now().Add(-time.Second)) {
		if c.Status == http.StatusOK {
			recent[c.Host] = true
		}
	}
	return len(recent) == len(d.hosts)
}

// accepting reports whether the leader commits a write, which includes a standby.
func (d *failover) accepting() bool {
	ctx, cancel := context.WithTimeout(d.Context(), time.Second)
	defer cancel()
	return execute(ctx, d.url, "SELECT pg_logical_emit_message(true, 'drill', '')") == nil
}

// longestGap returns the longest time without an answer since a time.
func (d *failover) longestGap(since time.Time) (longest time.Duration) {
	ends := answers(d.history.Since(since.Add(-time.Second)), -1)
	for i := 1; i < len(ends); i++ {
		longest = max(longest, ends[i].Sub(ends[i-1]))
	}
	return longest
}

// finish waits until the hosts have nothing left to do, compares the records with the answers, and writes the results.
func (d *failover) finish(kills []kill) {
	awaitRest(d, d.url)
	for _, h := range d.hosts {
		h.Stop(d, syscall.SIGTERM)
	}
	state, differences := compare(d.T, &d.history, d.backend, d.dirs[0], d.url)
	text := fmt.Sprintf("`just drill-failover %d`: three Postgres nodes, three hosts, %d requests: %d answered, "+
		"%d refused with 503, %d with 500 and a reference, %d without an answer. %d records.\n\n"+
		"**%d differences** between the records, the counts and the answers.\n\n"+
		"| killed | times | without an answer, median | most | of it after the first write, most |\n"+
		"|---|---|---|---|---|\n",
		len(kills), len(d.history.Calls), d.history.Count(200), d.history.Count(503), d.history.Count(500),
		d.history.Count(0), len(state.Records), len(differences))
	for _, machine := range []bool{false, true} {
		var gaps []time.Duration
		var back time.Duration
		for _, k := range kills {
			if k.machine == machine {
				gaps, back = append(gaps, k.gap), max(back, k.back)
			}
		}
		if slices.Sort(gaps); len(gaps) > 0 {
			what := map[bool]string{false: "Postgres", true: "Postgres and Patroni"}[machine]
			text += fmt.Sprintf("| %s | %d | %.1f s | %.1f s | %.1f s |\n", what, len(gaps),
				gaps[len(gaps)/2].Seconds(), gaps[len(gaps)-1].Seconds(), back.Seconds())
		}
	}
	d.Log("\n" + text)
	expect.NoError(d, d.results.write("Failover", text))
}

// node is a Patroni with its Postgres.
type node struct {
	*failover
	name           string
	postgres, rest int // ports
	cmd            *exec.Cmd
}

func newFailover(t *testing.T) *failover {
	d := &failover{T: t, results: beginResults(resultsFile)}
	var err error
	d.dir, err = os.MkdirTemp("", "assay-failover-")
	expect.NoError(t, err)
	t.Cleanup(func() {
		if !t.Failed() {
			_ = os.RemoveAll(d.dir)
		}
	})
	if os.Geteuid() == 0 { // which Postgres refuses to run as
		account := expect.Value(user.Lookup("postgres"))(t)
		uid, gid := expect.Value(strconv.Atoi(account.Uid))(t), expect.Value(strconv.Atoi(account.Gid))(t)
		d.owner = &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}
		expect.NoError(t, os.Chown(d.dir, uid, gid))
	}
	ports := freePorts(t, 9)
	d.etcd = fmt.Sprint("127.0.0.1:", ports[0])
	d.run("etcd", "etcd", "--data-dir", filepath.Join(d.dir, "etcd"), "--listen-client-urls", "http://"+d.etcd,
		"--advertise-client-urls", "http://"+d.etcd, "--listen-peer-urls", fmt.Sprint("http://127.0.0.1:", ports[1]))
	for i := range 3 {
		n := &node{failover: d, name: fmt.Sprint("n", i), postgres: ports[2+2*i], rest: ports[3+2*i]}
		d.nodes = append(d.nodes, n)
		d.write(n.name+".yml", n.config())
	}
	d.write("haproxy.cfg", d.haproxyConfig(ports[8]))
	for _, n := range d.nodes {
		n.start()
		d.await("a leader", func() bool { return d.leader() != nil }) // the first node creates the cluster
	}
	d.run("haproxy", "/usr/sbin/haproxy", "-db", "-f", filepath.Join(d.dir, "haproxy.cfg"))
	base := fmt.Sprintf("postgres://postgres:drill@127.0.0.1:%d/", ports[8])
	d.await("two synchronous candidates", d.whole)
	storetest.Exec(t, storetest.Session(t, base+"postgres"), "CREATE DATABASE assay")
	d.url = base + "assay"
	d.startHosts()
	return d
}

// startHosts starts three hosts and prepares their load.
func (d *failover) startHosts() {
	var starting errgroup.Group
	d.hosts, d.dirs = make([]*hosttest.HostProcess, 3), make([]string, 3)
	for i := range d.hosts {
		d.dirs[i] = hosttest.DataDir(d)
		starting.Go(func() (err error) {
			d.hosts[i], err = hosttest.TryHost(d, hosttest.Command(context.WithoutCancel(d.Context()), d.dirs[i], d.url,
				"--webhook-allow=127.0.0.1/32"))
			return err
		})
	}
	expect.NoError(d, starting.Wait())
	d.backend = hosttest.OpenStore(d, d.dirs[0], d.url)
	var clients []*chaos.Client
	for range 4 {
		clients = append(clients, newClient(d, d.backend, installation.Unlimited()))
	}
	receiveEvents(d, d.backend, &d.history, clients...)
	d.load = chaos.NewLoad(&d.history, clients, len(d.hosts), func(i int) string { return d.hosts[i].URL })
}

// config returns the settings of Patroni.
func (n *node) config() string {
	return fmt.Sprintf(`scope: assay
name: %[1]s
restapi: {listen: "127.0.0.1:%[3]d", connect_address: "127.0.0.1:%[3]d"}
etcd3: {host: "%[4]s"}
bootstrap:
  dcs:
    ttl: 20
    loop_wait: 2
    retry_timeout: 3
    primary_start_timeout: 0
    synchronous_mode: true
    synchronous_mode_strict: true
    postgresql:
      use_pg_rewind: true
      parameters: {max_connections: 60, shared_buffers: 64MB, max_wal_size: 256MB, wal_log_hints: "on"}
  initdb: [{encoding: UTF8}, {locale: C.UTF-8}, data-checksums]
  pg_hba: ["host all all 127.0.0.1/32 scram-sha-256", "host replication all 127.0.0.1/32 scram-sha-256"]
postgresql:
  listen: 127.0.0.1:%[2]d
  connect_address: 127.0.0.1:%[2]d
  data_dir: %[5]s/%[1]s
  bin_dir: %[6]s
  pgpass: %[5]s/%[1]s.pgpass
  authentication:
    superuser: {username: postgres, password: drill}
    replication: {username: replicator, password: drill}
  parameters: {unix_socket_directories: "%[5]s"}
`, n.name, n.postgres, n.rest, n.etcd, n.dir, binaries(n))
}

// binaries returns the folder of the newest Postgres.
func binaries(t testing.TB) string {
	t.Helper()
	all := expect.Value(filepath.Glob("/usr/lib/postgresql/*/bin"))(t)
	expect.Must(t, len(all) != 0, "the drill needs Debian's postgresql")
	return slices.Max(all)
}

// haproxyConfig returns settings of haproxy that send every connection to the leader.
func (d *failover) haproxyConfig(port int) string {
	text := fmt.Sprintf(`defaults
  mode tcp
  timeout connect 1s
  timeout client 30m
  timeout server 30m
listen primary
  bind 127.0.0.1:%d
  option httpchk OPTIONS /primary
  http-check expect status 200
  default-server inter 500ms fall 2 rise 1 on-marked-down shutdown-sessions
`, port)
	for _, n := range d.nodes {
		text += fmt.Sprintf("  server %s 127.0.0.1:%d check port %d\n", n.name, n.postgres, n.rest)
	}
	return text
}

func (d *failover) write(name, text string) {
	d.Helper()
	file := filepath.Join(d.dir, name)
	expect.NoError(d, os.WriteFile(file, []byte(text), 0o600))
	if d.owner != nil {
		expect.NoError(d, os.Chown(file, int(d.owner.Uid), int(d.owner.Gid)))
	}
}

// run starts a program that runs until the test ends. Its output goes to a file.
func (d *failover) run(name string, args ...string) *exec.Cmd {
	d.Helper()
	log := expect.Value(os.OpenFile(filepath.Join(d.dir, name+".log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600))(d)
	defer log.Close()
	cmd := exec.Command(args[0], args[1:]...)
	cmd.Dir, cmd.Stdout, cmd.Stderr = d.dir, log, log
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + d.dir, "LANG=C.UTF-8"}
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: d.owner, Setpgid: true}
	err := cmd.Start()
	expect.Must(d, err == nil, "the drill needs Debian's patroni, etcd-server, haproxy and postgresql: %v", err)
	d.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	return cmd
}

func (n *node) start() {
	n.cmd = n.run(n.name, "patroni", filepath.Join(n.dir, n.name+".yml"))
	n.Cleanup(func() { n.kill(true) })
}

// kill kills the node's Postgres with all its processes, and if the machine dies, Patroni before.
func (n *node) kill(machine bool) {
	if machine {
		_ = n.cmd.Process.Kill()
		_ = n.cmd.Wait()
	}
	if pid := postmasterIn(filepath.Join(n.dir, n.name)); pid != 0 {
		// A child that was missed could wait for a lock of a dead one forever, and keep Postgres from starting again.
		_ = syscall.Kill(pid, syscall.SIGSTOP) // it starts no more children
		for _, pid := range append([]int{pid}, childrenOf(pid)...) {
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
	}
}

func (n *node) get(path string) (status int, body []byte) {
	client := http.Client{Timeout: time.Second}
	response, err := client.Get(fmt.Sprintf("http://127.0.0.1:%d%s", n.rest, path))
	if err != nil {
		return 0, nil
	}
	defer response.Body.Close()
	body, _ = io.ReadAll(response.Body)
	return response.StatusCode, body
}

// freePorts returns n free ports.
func freePorts(t testing.TB, n int) []int {
	t.Helper()
	ports := make([]int, n)
	for i := range ports {
		l := expect.Value(net.Listen("tcp", "127.0.0.1:0"))(t)
		defer l.Close()
		ports[i] = l.Addr().(*net.TCPAddr).Port
	}
	return ports
}
