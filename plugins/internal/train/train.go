// Package train is what the commands that learn a layer from labelled rows share.
package train

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"strings"
	"time"
)

// Options say what to learn from and how to measure.
type Options struct {
	Target []string // files of labelled rows whose mix of sources is the one to be good at
	Pool   []string // files of more labelled rows, weighed to have that mix
	Out    string   // folder for what is learned; "" for nowhere
	Absent bool     // also measure with whole sources left out of training
	Jobs   int      // how many trainings run at a time while measuring
}

// paths is a flag that may be given more than once.
type paths []string

func (p *paths) String() string     { return strings.Join(*p, " ") }
func (p *paths) Set(s string) error { *p = append(*p, s); return nil }

// Parse reads a command's arguments; more, if not nil, declares flags of its own. Usage goes to w. Error: flag.ErrHelp,
// or what is wrong.
func Parse(args []string, w io.Writer, more func(*flag.FlagSet)) (Options, error) {
	var o Options
	flags := flag.NewFlagSet("train", flag.ContinueOnError)
	flags.SetOutput(w)
	flags.Var((*paths)(&o.Target), "target",
		"`file` of labelled rows whose mix of sources is the one to be good at; may be repeated")
	flags.Var((*paths)(&o.Pool), "pool", "`file` of more labelled rows, weighed to have that mix; may be repeated")
	flags.StringVar(&o.Out, "out", "", "`folder` for what is learned; nothing is written without it")
	flags.BoolVar(&o.Absent, "absent", true, "also measure with whole sources left out of training")
	flags.IntVar(&o.Jobs, "jobs", 2, "how many trainings run at a time while measuring")
	if more != nil {
		more(flags)
	}
	if err := flags.Parse(args); err != nil {
		return o, err
	}
	if len(o.Target) == 0 || flags.NArg() > 0 || o.Jobs < 1 {
		flags.Usage()
		return o, errors.New("want at least one -target file, no other arguments, and -jobs of 1 or more")
	}
	return o, nil
}

// Files are the target's and then the pool's; target says which are the former.
func (o Options) Files(read func(path string, target bool) error) error {
	for _, path := range o.Target {
		if err := read(path, true); err != nil {
			return err
		}
	}
	for _, path := range o.Pool {
		if err := read(path, false); err != nil {
			return err
		}
	}
	return nil
}

// Clock returns a function that prints a line of progress with the seconds since now.
func Clock(w io.Writer) func(format string, args ...any) {
	start := time.Now()
	return func(format string, args ...any) {
		fmt.Fprintf(w, "%5.0fs  "+format+"\n", append([]any{time.Since(start).Seconds()}, args...)...)
	}
}

// Exit ends a command that failed, unless it was only asked for help.
func Exit(err error) {
	if err == nil {
		return
	}
	if !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "train: "+err.Error())
	}
	os.Exit(1)
}
