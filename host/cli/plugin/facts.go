package plugin

import (
	"context"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"assay/host/check"
	"assay/host/cli/measurement"
	"assay/host/entity"
	"assay/host/installation"
	"assay/host/internal/terminal"
)

type pluginFactsCmd struct {
	Value   string `arg:"" help:"Domain, email address, phone number or IBAN."`
	Type    string `enum:"domain,email,phone,iban,auto" default:"auto" help:"Type of the value: ${enum}."`
	Country string `placeholder:"CC" help:"The request's region.country: ISO 3166-1 alpha-2, or EU."`
	Account string `placeholder:"ID" help:"${plugin_account}"`
	Record  string `placeholder:"FILE" help:"${plugin_record}"`
	terminal.Output
}

// knownFacts is the JSON output of `assay plugin facts`.
type knownFacts struct {
	Type       entity.Type  `json:"type"`
	Value      string       `json:"value"`      // normalised
	Parsed     entity.Facts `json:"parsed"`     // from the text of the value
	Facts      entity.Facts `json:"facts"`      // from lookups
	Unanswered []string     `json:"unanswered"` // sources that did not respond, whose facts may be missing
}

func (cmd *pluginFactsCmd) Run(ctx context.Context, c *installation.Command) error {
	e, err := entity.Parse(entity.Type(cmd.Type), cmd.Value, cmd.Country)
	if err != nil {
		return err
	}
	known := knownFacts{Type: e.Type, Value: e.Value, Parsed: e.Facts}
	err = withLookups(ctx, c, func(l *installation.Lookups) (err error) {
		var all []string
		for _, f := range l.Table() {
			all = append(all, f.Name)
		}
		known.Facts, known.Unanswered, err = l.LookUp(ctx, cmd.Account, e, all)
		return err
	})
	if err != nil {
		return err
	}
	write := func(out io.Writer) error { return (&terminal.Terminal{Out: out}).JSON(known.Facts) }
	if err := measurement.WriteTo(cmd.Record, "recording facts", write); err != nil {
		return err
	}
	return c.Show(known, func() error { return known.print(c.Terminal) })
}

func (k knownFacts) print(t *terminal.Terminal) error {
	t.Printf("%s %q\n\n", k.Type, k.Value)
	var rows [][]string
	for _, from := range []struct {
		name  string
		facts entity.Facts
	}{{"the value", k.Parsed}, {"lookup", k.Facts}} {
		for _, name := range slices.Sorted(maps.Keys(from.facts)) {
			rows = append(rows, []string{name, terminal.OneLine(from.facts[name]), from.name})
		}
	}
	if err := t.Table([]string{"FACT", "VALUE", "FROM"}, rows); err != nil {
		return err
	}
	printUnanswered(t, k.Unanswered)
	return nil
}

// printUnanswered names the sources whose facts may be missing.
func printUnanswered(t *terminal.Terminal, sources []string) {
	for _, source := range sources {
		if name, untrusted := strings.CutPrefix(source, check.UntrustedSource); untrusted {
			fmt.Fprintf(t.Err, "%s gives false answers, which are not used\n", name)
		} else {
			fmt.Fprintf(t.Err, "%s did not respond in time: its facts may be missing\n", source)
		}
	}
}

// withLookups opens the lookups of the installation or, without one, those that need no database, and calls do.
func withLookups(ctx context.Context, c *installation.Command, do func(*installation.Lookups) error) error {
	installed, err := c.HasInstallation()
	if err != nil {
		return err
	}
	if !installed {
		fmt.Fprintf(c.Err, "no database: there is no installation in %s\n", c.DataDir)
		return installation.UseLookups(ctx, c.Config, nil, c.Terminal, do)
	}
	s, err := c.Open(ctx)
	if err != nil {
		return err
	}
	return installation.UseLookups(ctx, c.Config, s.Store, c.Terminal, do)
}
