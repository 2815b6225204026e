package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"assay/host/bench"
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

// profile measures the processor time of a check, by part of the host, with 64 and with 256 connections. Every check is
// of another domain.
func (cmd *benchCmd) profile(ctx context.Context, dir, key string, t *terminal) error {
	var reports []costReport
	for _, connections := range []int{64, 256} {
		t.stage(fmt.Sprintf("measuring: processor time with %d connections", connections))
		r, err := cmd.cost(ctx, dir, key, connections)
		if err != nil {
			return err
		}
		reports = append(reports, r)
	}
	if cmd.JSON {
		return t.json(reports)
	}
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
	if err := t.table([]string{"CONNECTIONS", "PROCESSOR TIME", "PER CHECK"}, rows); err != nil {
		return err
	}
	for _, r := range reports {
		t.printf("%d connections: %d checks, %.0f per second, %d refused.\n", r.Connections, r.Checks, r.PerSecond,
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

func (cmd *benchCmd) cost(ctx context.Context, dir, key string, connections int) (r costReport, err error) {
	file := filepath.Join(dir, "cpu.pprof")
	r.Connections = connections
	var figures bench.Figures
	var before, after processorTimes
	err = withHostProcess(ctx, dir, func(url string, pid int) (err error) {
		target := bench.Target{URL: url + "/api/check", Key: key, Others: cmd.others,
			Bodies: bench.Domains(1 << 18)}
		if before, err = readProcessorTimes(dir, pid); err != nil {
			return err
		}
		figures, err = bench.Saturate(ctx, target, connections, time.Duration(cmd.Seconds)*time.Second)
		if err != nil {
			return err
		}
		after, err = readProcessorTimes(dir, pid)
		return err
	}, "--cpu-profile="+file)
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
	f, err := os.Open(file)
	if err != nil {
		return r, err
	}
	parts, err := bench.Attribute(f)
	r.Parts = map[string]float64{}
	for _, p := range parts {
		r.Parts[p.Part] = perCheck(p.Time)
		r.order = append(r.order, p.Part)
	}
	return r, cmp.Or(err, f.Close())
}
