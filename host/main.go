// Command assay is the fraud-scoring host and everything that is done to it from a shell.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"

	"github.com/alecthomas/kong"
)

// version is what this build calls itself.
const version = "0.1.0"

// cli is the command line. Settings come as flags or from the environment; the default command is serve.
type cli struct {
	Config

	Serve    serveCmd    `cmd:"" default:"withargs" help:"Run the host (the default)."`
	Check    checkCmd    `cmd:"" help:"Score one value and show how: every layer, its points and signals. Nothing is recorded."`
	Keys     keysCmd     `cmd:"" help:"Create, list and revoke API keys."`
	Webhooks webhooksCmd `cmd:"" help:"Webhook endpoints, their events and secrets."`
	Layers   layersCmd   `cmd:"" help:"Show the layers in force."`
	Lineup   lineupCmd   `cmd:"" help:"Show, set, compare and roll back lineups."`
	Plugin   pluginCmd   `cmd:"" help:"Build and publish plugins."`
	Eval     evalCmd     `cmd:"" help:"Measure a lineup on labelled values: how much fraud it catches, and what it spares."`
	Feeds    feedsCmd    `cmd:"" help:"Import, list and withdraw lists of known bad and known good entities."`
	Graph    graphCmd    `cmd:"" help:"Take things out of the reputation graph."`
	Audit    auditCmd    `cmd:"" help:"Verify the audit chain and sign checkpoints of it."`

	Bench benchCmd `cmd:"" help:"Measure hosts of its own on this machine: throughput, latency, and against one transaction a check."`

	Version kong.VersionFlag `help:"Print the version."`
}

func main() {
	os.Exit(run(context.Background(), os.Args[1:], os.Stdout, os.Stderr))
}

// exitCode carries an exit code out of kong's own handling.
type exitCode int

// run is main with its surroundings as parameters. It returns the process's exit code: 0, 1 for an error, 2 for a
// command line that cannot be understood.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) (code int) {
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
	defer stop()
	defer func() {
		if r := recover(); r != nil {
			exit, ok := r.(exitCode)
			if !ok {
				panic(r)
			}
			code = int(exit)
		}
	}()
	var c cli
	parser, err := kong.New(&c,
		kong.Name("assay"),
		kong.Description("Scores domains, email addresses, phone numbers and IBANs for fraud, in sandboxed layers."),
		kong.UsageOnError(),
		kong.Vars{"version": version, "threats": threatNames()},
		kong.Writers(stdout, stderr),
		kong.Exit(func(code int) { panic(exitCode(code)) }),
		kong.Bind(&c.Config),
		kong.BindTo(ctx, (*context.Context)(nil)),
		kong.Bind(&terminal{out: stdout, err: stderr}),
	)
	if err != nil {
		fmt.Fprintln(stderr, "assay:", err)
		return 1
	}
	command, err := parser.Parse(args)
	if err != nil {
		fmt.Fprintln(stderr, "assay:", err)
		return 2
	}
	if err := command.Run(); err != nil && !errors.Is(err, errStopped) {
		fmt.Fprintln(stderr, "assay:", err)
		return 1
	}
	return 0
}
