// Package train holds what the commands that learn a layer's data from labelled rows share: flags, reading and
// weighting rows, holding rows out, and reports. The models themselves are in the commands below it.
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

// Options are the flags of commands that learn from labelled domains.
type Options struct {
	Target []string // files of labelled rows with the mix of sources to optimise for
	Pool   []string // files of more labelled rows, reweighted to that mix
	Out    string   // folder for the learned files; "" to write none
	Absent bool     // also evaluate with whole sources absent from training
	// Files for the target's rows with held-out scores, see [Holdout]; "" to write none
	Rows, LetterRows string
	Jobs             int // number of splits to train on in parallel during evaluation
}

// paths is a flag that may be repeated.
type paths []string

func (p *paths) String() string     { return strings.Join(*p, " ") }
func (p *paths) Set(s string) error { *p = append(*p, s); return nil }

// Parse parses a command's arguments. define, if not nil, defines additional flags. Usage messages go to w. It returns
// flag.ErrHelp if help was requested.
func Parse(args []string, w io.Writer, define func(*flag.FlagSet)) (Options, error) {
	var o Options
	flags := flag.NewFlagSet("train", flag.ContinueOnError)
	flags.SetOutput(w)
	flags.Var((*paths)(&o.Target), "target",
		"`file` of labelled rows with the mix of sources to optimise for; may be repeated")
	flags.Var((*paths)(&o.Pool), "pool", "`file` of more labelled rows, reweighted to that mix; may be repeated")
	flags.StringVar(&o.Out, "out", "", "`folder` for the learned files; without it, none are written")
	flags.BoolVar(&o.Absent, "absent", true, "also evaluate with whole sources absent from training")
	flags.StringVar(&o.Rows, "rows", "",
		"`file` to write the target's rows to, with scores by models without the row's source")
	flags.StringVar(&o.LetterRows, "letter-rows", "",
		"the same with scores by models without names that share the row's first letters")
	flags.IntVar(&o.Jobs, "jobs", 2, "number of splits to train on in parallel during evaluation")
	if define != nil {
		define(flags)
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

// Progress prints a line of progress.
type Progress func(format string, args ...any)

// NewProgress returns a Progress that writes to w. Each line starts with the seconds since the call to NewProgress.
func NewProgress(w io.Writer) Progress {
	start := time.Now()
	return func(format string, args ...any) {
		fmt.Fprintf(w, "%5.0fs  "+format+"\n", append([]any{time.Since(start).Seconds()}, args...)...)
	}
}

// Exit prints err, unless it is flag.ErrHelp, and exits with status 1. It does nothing if err is nil.
func Exit(err error) {
	if err == nil {
		return
	}
	if !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "train: "+err.Error())
	}
	os.Exit(1)
}

// Logistic returns 1/(1+exp(-x)), with x clamped to -30..30. It approximates exp by a power of 2^20, using
// multiplications only, because the last bit of math.Exp may differ between machines.
func Logistic(x float64) float64 {
	e := 1 - min(max(x, -30), 30)/(1<<20)
	for range 20 {
		e *= e
	}
	return 1 / (1 + e)
}

// WriteWords writes words in lines of at most 120 bytes. Each word is followed by a space or a line end.
func WriteWords(out io.Writer, words []string) error {
	var text strings.Builder
	column := 0
	for i, word := range words {
		switch {
		case i == 0:
		case column+1+len(word) > 120:
			text.WriteByte('\n')
			column = 0
		default:
			text.WriteByte(' ')
			column++
		}
		text.WriteString(word)
		column += len(word)
	}
	text.WriteByte('\n')
	_, err := io.WriteString(out, text.String())
	return err
}
