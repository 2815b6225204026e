package main

import (
	"strings"

	"github.com/alecthomas/kong"
)

type helpCmd struct {
	About []string `arg:"" optional:"" help:"A command such as 'keys create', or 'settings' and one of their topics."`
}

func (*helpCmd) readsWrongSettings() {}

// Run prints a page of help.
func (cmd *helpCmd) Run(ctx *kong.Context, t *terminal) error {
	if len(cmd.About) > 0 && cmd.About[0] == "settings" {
		p, err := settingsPage(ctx.Model.Node, strings.Join(cmd.About[1:], " "))
		if err != nil {
			return misuse{err}
		}
		return p.write(t.out)
	}
	about, err := kong.Trace(ctx.Kong, cmd.About)
	if err == nil {
		err = about.Error
	}
	if err != nil {
		return misuse{err}
	}
	return printHelp(kong.HelpOptions{}, about)
}
