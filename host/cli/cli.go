// Package cli is the command line of assay: a file for each command, the help and the sources of settings.
package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"reflect"
	"slices"
	"syscall"

	"github.com/alecthomas/kong"

	lineupcmd "assay/host/cli/lineup"
	"assay/host/cli/plugin"
	"assay/host/installation"
	"assay/host/internal/terminal"
	"assay/host/server"
)

// cli is the command line. Settings are flags of all commands, and environment variables. The first page of help shows
// commands in this order, in their groups, each with the first sentence of its text.
type cli struct {
	installation.Config

	Serve serveCmd  `cmd:"" default:"1" group:"Run" help:"${serve_cmd}"`
	Show  configCmd `cmd:"" name:"config" group:"Run" help:"${config_cmd}"`
	Help  helpCmd   `cmd:"" group:"Run" help:"Show help about a command, or about the settings."`

	Check checkCmd `cmd:"" group:"Score and measure" help:"${check_cmd}"`
	Eval  evalCmd  `cmd:"" group:"Score and measure" help:"${eval_cmd}"`
	Bench benchCmd `cmd:"" group:"Score and measure" help:"${bench_cmd}"`

	Keys      keysCmd      `cmd:"" group:"Customers" help:"Create, list and revoke API keys."`
	Accounts  accountsCmd  `cmd:"" group:"Customers" help:"Suspend accounts, set quotas, let owners sign in."`
	Privacy   privacyCmd   `cmd:"" group:"Customers" help:"Export or erase a person's data in all accounts."`
	Webhooks  webhooksCmd  `cmd:"" group:"Customers" help:"Manage webhook endpoints, their events and signing secrets."`
	Overrides overridesCmd `cmd:"" group:"Customers" help:"Block or allow values in advance, for all accounts."`

	Lineup lineupcmd.Cmd   `cmd:"" group:"Lineup and layers" help:"${lineup_cmd}"`
	Layers layersCmd       `cmd:"" group:"Lineup and layers" help:"List the layers in force, and all published ones."`
	Plugin plugin.Cmd      `cmd:"" group:"Lineup and layers" help:"Write, test, build and publish layers."`
	Train  plugin.TrainCmd `cmd:"" group:"Lineup and layers" help:"${train_cmd}"`

	Feeds    feedsCmd    `cmd:"" group:"Lists and reputation" help:"${feeds_cmd}"`
	Graph    graphCmd    `cmd:"" group:"Lists and reputation" help:"Remove data from the reputation graph."`
	Feedback feedbackCmd `cmd:"" group:"Lists and reputation" help:"${feedback_cmd}"`

	Audit    auditCmd    `cmd:"" group:"Audit and database" help:"${audit_cmd}"`
	Secret   secretCmd   `cmd:"" group:"Audit and database" help:"Replace the secret from which keys derive."`
	Database databaseCmd `cmd:"" group:"Audit and database" help:"${database_cmd}"`
	Witness  witnessCmd  `cmd:"" group:"Audit and database" help:"${witness_cmd}"`

	Compile compileCmd `cmd:"" hidden:"" help:"Compile a module for a host, which starts this command itself."`
	Measure measureCmd `cmd:"" hidden:"" help:"Measure a module. 'assay plugin' starts this command itself."`

	Version kong.VersionFlag `help:"Print the version."`
}

// AfterApply notes whether the operator has named an installation. Kong calls it. If so, a command must fail without
// it, even if it could use the built-in lineup: a mistyped folder must not change the answers.
func (c *cli) AfterApply(command *kong.Context) error {
	_, c.Named = os.LookupEnv("ASSAY_DATA_DIR")
	for _, p := range command.Path {
		c.Named = c.Named || p.Flag != nil && p.Flag.Name == "data-dir"
	}
	c.Named = c.Named || c.SecretFile != "" || c.DatabaseURL != ""
	return nil
}

// exitCode is the panic value with which kong's exit function returns control to run.
type exitCode int

// Run executes a command line and returns the exit code: 0 for success, 1 for an error, 2 for a command line that
// cannot be parsed.
func Run(ctx context.Context, args []string, stdout, stderr io.Writer) (code int) {
	ends := []os.Signal{os.Interrupt, syscall.SIGTERM}
	if !signal.Ignored(syscall.SIGHUP) { // as nohup ignores it
		ends = append(ends, syscall.SIGHUP)
	}
	ctx, stop := signal.NotifyContext(ctx, ends...)
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
	var s settings
	t := &terminal.Terminal{Out: stdout, Err: stderr}
	with := &installation.Command{Config: &c.Config, Terminal: t}
	parser, err := newParser(&c,
		kong.Bind(&s),
		kong.Writers(stdout, stderr),
		kong.Exit(func(code int) { panic(exitCode(code)) }),
		kong.BindTo(ctx, (*context.Context)(nil)),
		kong.Bind(t, with),
		kong.BindToProvider(with.Open),
	)
	if err != nil {
		fmt.Fprintln(stderr, "assay:", err)
		return 1
	}
	command, err := parser.Parse(args)
	if err != nil {
		if command = worksAnyway(err); command == nil {
			reportMisuse(stderr, &s, err)
			return 2
		}
	}
	if name := emptyFlag(command); name != "" {
		reportMisuse(stderr, &s, fmt.Errorf("--%s: is empty", name))
		return 2
	}
	if command.Selected().Target.Type() != reflect.TypeFor[serveCmd]() { // which acts on the second signal itself
		context.AfterFunc(ctx, stop)
	}
	t.AsJSON = slices.ContainsFunc(command.Selected().Flags, func(f *kong.Flag) bool { // of terminal.Output
		return f.Name == "json" && f.Target.Bool()
	})
	err = command.Run()
	err = errors.Join(err, t.Failed, with.Close())
	if errors.As(err, new(terminal.Misuse)) {
		reportMisuse(stderr, &s, err)
		return 2
	}
	if err != nil && !errors.Is(err, server.ErrStopped) {
		fmt.Fprintln(stderr, "assay:", err)
		return 1
	}
	return 0
}

// emptyFlag returns the name of a flag of the command that has an empty value, or "". A shell variable that is not set
// gives one, which must not mean the same as no flag: all accounts, or a key without limits.
func emptyFlag(command *kong.Context) string {
	for _, p := range command.Path {
		if p.Flag == nil || !slices.Contains(command.Selected().Flags, p.Flag) {
			continue
		}
		if v := p.Flag.Target; (v.Kind() == reflect.String || v.Kind() == reflect.Slice) && v.Len() == 0 {
			return p.Flag.Name
		}
	}
	return ""
}

// newParser returns the parser of command lines.
func newParser(c *cli, options ...kong.Option) (*kong.Kong, error) {
	options = append([]kong.Option{kong.Bind(new(settings))}, options...)
	return kong.New(c, append(options, kong.Vars{"version": helpTexts["version"]}, kong.Name("assay"),
		kong.Help(printHelp), kong.Bind(&c.Config), kong.Description("${description}"), kong.PostBuild(expandHelp))...)
}

// settingsReader is a command that runs even with invalid settings, because it helps to correct them.
type settingsReader interface{ readsWrongSettings() }

// worksAnyway returns the command to run although parsing failed, or nil.
func worksAnyway(err error) *kong.Context {
	var failed *kong.ParseError
	if !errors.As(err, &failed) || failed.Context.Error != nil || failed.Context.Selected() == nil {
		return nil
	}
	if _, ok := failed.Context.Selected().Target.Addr().Interface().(settingsReader); !ok {
		return nil
	}
	if _, err := failed.Context.Apply(); err != nil {
		return nil
	}
	return failed.Context
}
