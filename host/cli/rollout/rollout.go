// Package rollout is shared by the commands that change the lineup: it prints the steps and the result.
package rollout

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"assay/host/installation"
	"assay/host/internal/terminal"
	"assay/host/lineup"
	"assay/host/lineup/change"
	"assay/registry"
	"assay/registry/activation"
)

// Percent is a share in whole percent, such as 5%.
type Percent int

// UnmarshalText reads a share.
func (p *Percent) UnmarshalText(text []byte) error {
	number, found := strings.CutSuffix(strings.TrimSpace(string(text)), "%")
	n, err := strconv.Atoi(number)
	if !found || err != nil || n < 1 || n > activation.MaxShare {
		return fmt.Errorf("%q is not a whole percentage from 1%% to %d%%", text, activation.MaxShare)
	}
	*p = Percent(n)
	return nil
}

// Forced reports whether an operator forces a change and says why.
func Forced(force bool, reason string) bool { return force && strings.TrimSpace(reason) != "" }

// Limit returns the share of verdicts that a canary may change: limit or, if it is nil, that of any new lineup.
func Limit(cfg *installation.Config, limit *activation.Limit) float64 {
	if limit == nil {
		return float64(cfg.FlipLimit)
	}
	return limit.Share()
}

// Use calls fn with the operator of an installation and with what is in force. It prints the steps of a change, and the
// differences if another lineup came into force in the meantime.
func Use(
	ctx context.Context, c *installation.Command,
	fn func(s *installation.Session, o *change.Operator, base lineup.Verified) error,
) error {
	s, err := c.Open(ctx)
	if err != nil {
		return err
	}
	o, err := s.Operator(ctx, c.Config, c.Terminal)
	if err != nil {
		return err
	}
	o.Observe = Observer(c.Terminal, c.AsJSON)
	base, err := o.Current(ctx)
	if err != nil {
		return err
	}
	err = fn(s, o, base)
	return errors.Join(Explain(err), showConflict(c.Err, err))
}

// Run is Use for a command that prints nothing but the result of a change.
func Run(
	ctx context.Context, c *installation.Command,
	fn func(o *change.Operator, base lineup.Verified) (change.Activated, error),
) error {
	return Use(ctx, c, func(_ *installation.Session, o *change.Operator, base lineup.Verified) error {
		done, err := fn(o, base)
		if err != nil {
			return err
		}
		return c.Show(done, func() error { Print(c.Terminal, done); return nil })
	})
}

// Print says what is in force, and on which hosts.
func Print(t *terminal.Terminal, done change.Activated) {
	what := done.What()
	t.Printf("%s is %s.\n", strings.ToUpper(what[:1])+what[1:], done.Where())
	if len(done.Silent) > 0 {
		t.Printf("Skipped, because silent: %s. They refuse checks until they run it.\n",
			strings.Join(done.Silent, ", "))
	}
}

// Observer returns a function that prints the steps of a change: to t.Out, if that is not for JSON, and warnings to
// t.Err.
func Observer(t *terminal.Terminal, asJSON bool) func(change.Event) error {
	out := t.Out
	if asJSON {
		out = t.Err
	}
	warn := func(format string, args ...any) { fmt.Fprintf(t.Err, "warning: "+format+"\n", args...) }
	return func(e change.Event) error {
		switch {
		case e.Host != nil:
			text := e.Host.Host.Name + ": " + e.Host.What
			if e.Host.Reason != "" {
				text += ", " + e.Host.Reason
			}
			fmt.Fprintln(out, text)
		case e.Report != nil:
			return e.Report.WriteText(out)
		case e.Slow != nil:
			warn("%s: the layers' budgets together are %d units of fuel, about %v; a check that burns them all is "+
				"refused after %v", e.Slow.Type, e.Slow.Fuel, time.Duration(e.Slow.Fuel).Round(time.Millisecond),
				installation.CheckTimeout)
		case e.EndsCanary != 0:
			warn("this ends the canary, revision %d", e.EndsCanary)
		case e.NoBase != 0:
			warn("the file does not say which activation it derives from: it replaces %d, which is in force now. "+
				"`assay lineup show --file` writes a file that says so", e.NoBase)
		}
		return nil
	}
}

// Explain adds to an error of a change how the user of a command can go on.
func Explain(err error) error {
	var beyond *change.BeyondLimitError
	var conflict *change.ConflictError
	switch {
	case errors.As(err, &beyond) && beyond.Canary:
		return fmt.Errorf("%w, and so be withdrawn; to try it anyway, raise --limit", err)
	case errors.As(err, &beyond):
		return fmt.Errorf("%w; to activate it anyway, use --force --reason TEXT. The limit is ASSAY_FLIP_LIMIT", err)
	case errors.Is(err, change.ErrNoKey):
		return fmt.Errorf("%w: set ASSAY_OPERATOR_KEY to its file", err)
	case errors.Is(err, change.ErrNoEvidence):
		return fmt.Errorf("%w: `assay lineup hosts` shows what it does; to promote it anyway, --force --reason TEXT",
			err)
	case errors.Is(err, change.ErrNoCanary):
		return fmt.Errorf("%w: `assay lineup canary FILE --share 5%%` starts one", err)
	case errors.As(err, &conflict) && !conflict.Meanwhile:
		err = fmt.Errorf("%w: write a new file with `assay lineup show --file` and make your change again", err)
		if conflict.Unknown {
			err = errors.Join(err, errors.New("the activation that it derives from is not in this database"))
		}
	}
	return err
}

// showConflict prints how the lineup in force and the proposed one differ from the lineup that both derive from.
func showConflict(out io.Writer, err error) error {
	var conflict *change.ConflictError
	if !errors.As(err, &conflict) || conflict.Unknown {
		return nil
	}
	fmt.Fprintf(out, "Changed in force by %s (activation %d):\n\n", conflict.InForce.Author, conflict.InForce.Number)
	inForce := printConflict(out, conflict.Theirs)
	fmt.Fprintf(out, "Changed by the file:\n\n")
	return errors.Join(inForce, printConflict(out, conflict.Own))
}

func printConflict(out io.Writer, changes []registry.Change) (err error) {
	if len(changes) == 0 {
		fmt.Fprintln(out, "nothing")
	} else {
		err = PrintChanges(&terminal.Terminal{Out: out}, changes, "BEFORE", "AFTER")
	}
	fmt.Fprintln(out)
	return err
}

// PrintChanges prints a table of the differences of lineups.
func PrintChanges(t *terminal.Terminal, changes []registry.Change, from, to string) error {
	rows := make([][]string, len(changes))
	for i, c := range changes {
		rows[i] = []string{c.What, c.From, c.To}
	}
	return t.Table([]string{"WHAT", from, to}, rows)
}
