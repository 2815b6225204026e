package cli

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"time"

	"assay/host/installation"
	"assay/host/internal/terminal"
	"assay/host/measure/bench"
	"assay/host/server"
	"assay/host/store"
)

type benchCmd struct {
	Seconds     int  `default:"10" help:"Duration of each measurement."`
	Connections int  `default:"64" help:"Number of concurrent connections."`
	Accounts    int  `default:"1" help:"Number of accounts that make the checks. One alone gets half of a host."`
	Rate        int  `default:"500" help:"Requests per second to send when measuring latency."`
	Profile     bool `help:"Measure the processor time of a check by part instead. Needs Linux."`
	Overload    bool `help:"Measure a host that is offered twice its capacity instead."`
	terminal.Output

	keys []string // of the accounts
}

// Validate checks the flags. Kong calls it.
func (cmd *benchCmd) Validate() error {
	for name, n := range map[string]int{"seconds": cmd.Seconds, "connections": cmd.Connections,
		"accounts": cmd.Accounts, "rate": cmd.Rate} {
		if n < 1 || n > 1e6 {
			return fmt.Errorf("--%s must be from 1 to 1000000", name)
		}
	}
	return nil
}

// benchReport is the JSON output of `assay bench`.
type benchReport struct {
	Batched   bench.Figures `json:"batched"`    // up to 256 checks per transaction
	Unbatched bench.Figures `json:"unbatched"`  // one check per transaction
	Echo      bench.Figures `json:"echo"`       // a fiber server with a constant answer
	Offered   bench.Figures `json:"at_offered"` // batched, at a fixed rate of requests
	Ratio     float64       `json:"batched_to_unbatched"`
}

// Run starts hosts in processes of their own, on a private database in a temporary directory, and measures them.
func (cmd *benchCmd) Run(ctx context.Context, cfg *installation.Config, t *terminal.Terminal) (err error) {
	dir, err := os.MkdirTemp("", "assay-bench-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	// When started as root, Postgres runs as another user, which must be able to enter the directory.
	if err := os.Chmod(dir, 0o711); err != nil {
		return err
	}
	own := *cfg
	own.DataDir, own.SecretFile, own.DatabaseURL, own.DatabaseDirectURL = dir, "", "", ""
	if _, err := own.CreateInstallation(); err != nil {
		return err
	}
	// Build the layers before Postgres starts. Hosts then find them in their cache.
	if modules, err := installation.BuiltInLayers(ctx, &own, t); err != nil || len(modules) == 0 {
		return cmp.Or(err, installation.ErrNoBuiltIn)
	}
	b, err := installation.Open(ctx, &own, t, installation.QuietLog(t), store.CreateSchema)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, b.Close()) }() // also after a panic: it ends Postgres
	return cmd.run(ctx, dir, b, t)
}

// run measures hosts on the database of a backend.
func (cmd *benchCmd) run(ctx context.Context, dir string, b *installation.Backend, t *terminal.Terminal) error {
	for range cmd.Accounts {
		issued, err := installation.IssueKey(ctx, b.Store, installation.Unlimited(), "bench")
		if err != nil {
			return err
		}
		cmd.keys = append(cmd.keys, issued.Secret)
	}
	if cmd.Profile {
		return cmd.profile(ctx, dir, t)
	}
	if cmd.Overload {
		return cmd.overload(ctx, dir, t)
	}
	report, err := cmd.measure(ctx, dir, t)
	if err != nil {
		return err
	}
	return t.Show(report, func() error { return cmd.print(t, report) })
}

// duration returns the duration of each measurement.
func (cmd *benchCmd) duration() time.Duration { return time.Duration(cmd.Seconds) * time.Second }

// target returns the requests to send to a host.
func (cmd *benchCmd) target(url string) bench.Target {
	return bench.Target{URL: url + "/api/check", Keys: cmd.keys, Bodies: bench.Bodies(4096)}
}

// saturate measures a host that has warmed up.
func (cmd *benchCmd) saturate(ctx context.Context, url string) (bench.Figures, error) {
	target := cmd.target(url)
	if f, err := bench.Saturate(ctx, target, cmd.Connections, time.Second); err != nil {
		return f, err
	}
	return bench.Saturate(ctx, target, cmd.Connections, cmd.duration())
}

func (cmd *benchCmd) measure(ctx context.Context, dir string, t *terminal.Terminal) (r benchReport, err error) {
	t.Stage("measuring: batched ledger")
	err = withHost(ctx, dir, func(h benchHost) (err error) {
		if r.Batched, err = cmd.saturate(ctx, h.url); err != nil {
			return err
		}
		t.Stage(fmt.Sprintf("measuring: %d requests per second", cmd.Rate))
		r.Offered, err = bench.Offer(ctx, cmd.target(h.url), cmd.Rate, cmd.duration())
		return err
	})
	if err != nil {
		return r, err
	}
	t.Stage("measuring: one check per transaction")
	err = withHost(ctx, dir, func(h benchHost) (err error) {
		r.Unbatched, err = cmd.saturate(ctx, h.url)
		return err
	}, "--ledger-batch=1")
	if err != nil {
		return r, err
	}
	t.Stage("measuring: fiber alone")
	r.Ratio = r.Batched.PerSecond / r.Unbatched.PerSecond
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return r, err
	}
	stop := bench.Echo(l, []byte(EchoAnswer))
	r.Echo, err = cmd.saturate(ctx, "http://"+l.Addr().String())
	return r, errors.Join(err, stop())
}

// EchoAnswer has the size of a host's answer.
const EchoAnswer = `{"score":2,"verdict":"allow","signals":[],"dominant_threat":null,"type":"domain",` +
	`"query":"shop-0.example-store.com","timestamp":"2026-01-01T00:00:00.000Z","ref":"chk_01KAHV8Q0000000000000000000"}`

func (cmd *benchCmd) print(t *terminal.Terminal, r benchReport) error {
	row := func(what string, f bench.Figures) []string {
		return []string{what, fmt.Sprintf("%.0f", f.PerSecond), inMS(f.P50), inMS(f.P99), inMS(f.Max),
			fmt.Sprint(f.Refused + f.Errors + f.Failed)}
	}
	err := t.Table([]string{"", "PER SECOND", "P50", "P99", "MAX", "FAILED"}, [][]string{
		row(fmt.Sprintf("checks, %d connections, 256 per transaction", cmd.Connections), r.Batched),
		row(fmt.Sprintf("checks, %d connections, 1 per transaction", cmd.Connections), r.Unbatched),
		row(fmt.Sprintf("fiber alone, %d connections", cmd.Connections), r.Echo),
		row(fmt.Sprintf("checks, %d requests per second", cmd.Rate), r.Offered),
	})
	t.Printf("\nBatched to unbatched: %.1f times.\n", r.Ratio)
	return err
}

// overloadReport is the JSON output of `assay bench --overload`.
type overloadReport struct {
	Capacity bench.Figures `json:"capacity"` // with as many connections as given
	Offered  int           `json:"offered_per_second"`
	Overload bench.Figures `json:"overload"`
}

// overload measures the capacity of a host, and then its behaviour with twice as many requests.
func (cmd *benchCmd) overload(ctx context.Context, dir string, t *terminal.Terminal) error {
	var r overloadReport
	err := withHost(ctx, dir, func(h benchHost) (err error) {
		t.Stage("measuring: capacity")
		if r.Capacity, err = cmd.saturate(ctx, h.url); err != nil {
			return err
		}
		r.Offered = max(1, int(2*r.Capacity.PerSecond))
		t.Stage(fmt.Sprintf("measuring: %d requests per second", r.Offered))
		r.Overload, err = bench.Offer(ctx, cmd.target(h.url), r.Offered, cmd.duration())
		return err
	})
	if err != nil {
		return err
	}
	return t.Show(r, func() error { return r.print(t, cmd.Connections) })
}

func (r overloadReport) print(t *terminal.Terminal, connections int) error {
	row := func(what string, f bench.Figures) []string {
		return []string{what, fmt.Sprintf("%.0f", f.PerSecond), fmt.Sprintf("%.0f", f.RefusedPerSecond), inMS(f.P50),
			inMS(f.P99), inMS(f.Max), inMS(f.RefusedP99), inMS(f.SlowestRefusal), fmt.Sprint(f.Errors),
			fmt.Sprint(f.Failed)}
	}
	return t.Table([]string{"", "ANSWERED/S", "REFUSED/S", "P50", "P99", "MAX", "REFUSAL P99", "REFUSAL MAX", "500",
		"FAILED"}, [][]string{
		row(fmt.Sprintf("%d connections", connections), r.Capacity),
		row(fmt.Sprintf("%d requests per second", r.Offered), r.Overload),
	})
}

func inMS(d time.Duration) string { return fmt.Sprintf("%.2f ms", float64(d.Microseconds())/1000) }

// benchHost is a running host.
type benchHost struct {
	url, admin string
	pid        int
}

// benchEnv returns the environment of a host to be measured, without the settings of other installations: their
// database, payments, mail, witnesses and keys. Lookups are off because they would measure other people's servers.
func benchEnv(env []string) []string {
	own := slices.DeleteFunc(env, func(v string) bool {
		return strings.HasPrefix(v, "ASSAY_") && !strings.HasPrefix(v, "ASSAY_CHAINS=") &&
			!strings.HasPrefix(v, "ASSAY_DATABASE_CONNECTIONS=")
	})
	return append(own, "ASSAY_CONFIG=", "ASSAY_DRAIN=0s", "ASSAY_DNS=off", "ASSAY_RDAP_URL=off")
}

// withHost starts a host in a process of its own, calls fn with it, and stops it, also after a panic.
func withHost(ctx context.Context, dir string, fn func(h benchHost) error, flags ...string) (err error) {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	host := exec.CommandContext(ctx, self, append([]string{"serve", "--listen=127.0.0.1:0",
		"--admin-listen=127.0.0.1:0", "--data-dir=" + dir}, flags...)...)
	host.Env = benchEnv(os.Environ())
	host.Cancel = func() error { return host.Process.Signal(syscall.SIGTERM) }
	host.WaitDelay = installation.StopTimeout
	host.Stderr = os.Stderr
	out, err := host.StdoutPipe()
	if err != nil {
		return err
	}
	if err := host.Start(); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, host.Process.Signal(syscall.SIGTERM), host.Wait()) }()
	lines, h := bufio.NewScanner(out), benchHost{pid: host.Process.Pid}
	if h.url, err = server.ReadURL(lines, server.Greeting); err == nil {
		h.admin, err = server.ReadURL(lines, server.AdminGreeting)
	}
	if err == nil {
		err = fn(h)
	}
	return err
}
