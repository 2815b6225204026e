// Command assay is the fraud-scoring host and its command line.
//
// This package holds the commands, the settings and the wiring of the host. Everything else is in the packages below.
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

const version = "0.1.0"

// cli is the command line. Settings are flags or environment variables.
type cli struct {
	Config

	Serve    serveCmd    `cmd:"" default:"withargs" help:"Run the host (the default command)."`
	Check    checkCmd    `cmd:"" help:"${check_cmd}"`
	Keys     keysCmd     `cmd:"" help:"Create, list and revoke API keys."`
	Webhooks webhooksCmd `cmd:"" help:"Manage webhook endpoints, their events and signing secrets."`
	Layers   layersCmd   `cmd:"" help:"List layers."`
	Lineup   lineupCmd   `cmd:"" help:"Show, set, compare, roll back and fit lineups."`
	Plugin   pluginCmd   `cmd:"" help:"Build and publish plugins."`
	Eval     evalCmd     `cmd:"" help:"${eval_cmd}"`
	Feeds    feedsCmd    `cmd:"" help:"Import, list and withdraw lists of known bad and known good entities."`
	Feedback feedbackCmd `cmd:"" help:"Measure signals by what customers reported about their checks."`
	Graph    graphCmd    `cmd:"" help:"Remove data from the reputation graph."`
	Audit    auditCmd    `cmd:"" help:"Verify the audit log and sign checkpoints of it."`
	Database databaseCmd `cmd:"" help:"Distribute the database over several machines."`
	Bench    benchCmd    `cmd:"" help:"${bench_cmd}"`
	Compile  compileCmd  `cmd:"" hidden:"" help:"Compile a module for a host, which starts this command itself."`

	Overrides overridesCmd `cmd:"" help:"Set verdicts on values in advance, for all accounts."`

	Version kong.VersionFlag `help:"Print the version."`
}

func main() {
	os.Exit(run(context.Background(), os.Args[1:], os.Stdout, os.Stderr))
}

// exitCode is the panic value with which kong's exit function returns control to run.
type exitCode int

// run executes a command line and returns the exit code: 0 for success, 1 for an error, 2 for a command line that
// cannot be parsed.
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
		helpTexts,
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
