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

// expandHelp puts helpTexts into the help. As kong's own variables, each of them would be expanded once more for each
// flag of each command. That took more than half of a command's start.
func expandHelp(k *kong.Kong) error {
	names := make([]string, 0, 2*len(helpTexts))
	for name, text := range helpTexts {
		names = append(names, "${"+name+"}", strings.ReplaceAll(text, "$", "$$"))
	}
	texts := strings.NewReplacer(names...)
	k.Model.Help = texts.Replace(k.Model.Help)
	return kong.Visit(k.Model, func(node kong.Visitable, next kong.Next) error {
		switch node := node.(type) {
		case *kong.Node:
			node.Help = texts.Replace(node.Help)
		case *kong.Value:
			help := strings.ReplaceAll(texts.Replace(node.Help), "$${default}", node.Default)
			node.Help, node.Enum = help, texts.Replace(node.Enum)
		}
		return next(nil)
	})
}
