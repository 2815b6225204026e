package cli

import (
	"strings"

	"github.com/alecthomas/kong"

	"assay/host/internal/terminal"
)

type helpCmd struct {
	About []string `arg:"" optional:"" help:"A command such as 'keys create', or 'settings' and one of their topics."`
}

func (*helpCmd) readsWrongSettings() {}

// Run prints a page of help.
func (cmd *helpCmd) Run(ctx *kong.Context, t *terminal.Terminal) error {
	if len(cmd.About) == 0 {
		return helpPage(ctx.Model.Node).write(t.Out)
	}
	if cmd.About[0] == "settings" {
		p, err := settingsPage(ctx.Model.Node, strings.Join(cmd.About[1:], " "))
		if err != nil {
			return terminal.Misuse{Err: err}
		}
		return p.write(t.Out)
	}
	about, err := kong.Trace(ctx.Kong, cmd.About)
	if err == nil {
		err = about.Error
	}
	if err != nil {
		return terminal.Misuse{Err: err}
	}
	return printHelp(kong.HelpOptions{}, about)
}
