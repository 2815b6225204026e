package cli

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"golang.org/x/sync/errgroup"

	"assay/host/internal/terminal"
	"assay/host/measure/bench"
)

// costReport is the JSON output of `assay bench --profile`: processor time per check.
type costReport struct {
	Connections int                `json:"connections"`
	Checks      int                `json:"checks"`  // answered
	Refused     int                `json:"refused"` // with 503; their time counts too
	PerSecond   float64            `json:"per_second"`
	HostMicros  float64            `json:"host_us"`
	Postgres    float64            `json:"postgres_us"`
	Load        float64            `json:"load_us"`  // of the process that sends the requests
	Parts       map[string]float64 `json:"parts_us"` // of the host, from samples
	order       []string           // of Parts, largest first
}

// profile measures the processor time of a check, by part of the host, with 64 and with 256 connections. Each check is
// of a different domain.
func (cmd *benchCmd) profile(ctx context.Context, dir string, t *terminal.Terminal) error {
	var reports []costReport
	for _, connections := range []int{64, 256} {
		t.Stage(fmt.Sprintf("measuring: processor time with %d connections", connections))
		r, err := cmd.cost(ctx, dir, connections)
		if err != nil {
			return err
		}
		reports = append(reports, r)
	}
	return t.Show(reports, func() error { return printCosts(t, reports) })
}

func printCosts(t *terminal.Terminal, reports []costReport) error {
	var rows [][]string
	for _, r := range reports {
		row := func(what string, us float64) {
			rows = append(rows, []string{fmt.Sprint(r.Connections), what, fmt.Sprintf("%.0f us", us)})
		}
		row("host", r.HostMicros)
		for _, part := range r.order {
			row("  "+part, r.Parts[part])
		}
		row("Postgres", r.Postgres)
		row("load", r.Load)
	}
	if err := t.Table([]string{"CONNECTIONS", "PROCESSOR TIME", "PER CHECK"}, rows); err != nil {
		return err
	}
	for _, r := range reports {
		t.Printf("%d connections: %d checks, %.0f per second, %d refused.\n", r.Connections, r.Checks, r.PerSecond,
			r.Refused)
	}
	return nil
}

// processorTimes are the processor times of all processes that take part in a measurement.
type processorTimes struct{ host, postgres, load time.Duration }

func readProcessorTimes(dir string, host int) (p processorTimes, err error) {
	var errs [3]error
	p.host, errs[0] = bench.ProcessTime(host)
	p.load, errs[1] = bench.ProcessTime(os.Getpid())
	p.postgres, errs[2] = bench.TimeWithin(dir)
	return p, errors.Join(errs[:]...)
}

// maxProfile limits a profile, in bytes, and is far above the usual size.
const maxProfile = 64 << 20

func (cmd *benchCmd) cost(ctx context.Context, dir string, connections int) (r costReport, err error) {
	r.Connections = connections
	var figures bench.Figures
	var before, after processorTimes
	var samples []byte
	err = withHost(ctx, dir, func(h benchHost) (err error) {
		target := cmd.target(h.url)
		target.Bodies = bench.Domains(1 << 18)
		if before, err = readProcessorTimes(dir, h.pid); err != nil {
			return err
		}
		measuring, ctx := errgroup.WithContext(ctx)
		measuring.Go(func() (err error) {
			url := fmt.Sprintf("%s/debug/pprof/profile?seconds=%d", h.admin, cmd.Seconds)
			samples, err = fetch(ctx, url, maxProfile)
			return err
		})
		measuring.Go(func() (err error) {
			figures, err = bench.Saturate(ctx, target, connections, cmd.duration())
			return err
		})
		if err := measuring.Wait(); err != nil {
			return err
		}
		after, err = readProcessorTimes(dir, h.pid)
		return err
	})
	if err != nil {
		return r, err
	}
	r.Checks, r.Refused, r.PerSecond = figures.Answered, figures.Refused, figures.PerSecond
	if bad := figures.Errors + figures.Failed; bad > 0 {
		return r, fmt.Errorf("measuring processor time: %d requests failed", bad)
	}
	perCheck := func(d time.Duration) float64 { return d.Seconds() * 1e6 / float64(r.Checks) }
	r.HostMicros, r.Postgres = perCheck(after.host-before.host), perCheck(after.postgres-before.postgres)
	r.Load = perCheck(after.load - before.load)
	parts, err := bench.Attribute(bytes.NewReader(samples))
	r.Parts = map[string]float64{}
	for _, p := range parts {
		r.Parts[p.Part] = perCheck(p.Time)
		r.order = append(r.order, p.Part)
	}
	return r, err
}
