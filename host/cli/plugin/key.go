package plugin

import (
	lineupcmd "assay/host/cli/lineup"
	"assay/host/internal/terminal"
	"assay/registry/activation"
)

type pluginKeyCmd struct {
	File string `arg:"" help:"File to create, which only its owner can read."`
	Name string `placeholder:"NAME" default:"assay/publisher" help:"Name of the key (default: ${default})."`
	terminal.Output
}

func (cmd *pluginKeyCmd) Run(t *terminal.Terminal) error {
	line, err := lineupcmd.NewKeyLine(cmd.File, cmd.Name, activation.Publisher)
	if err != nil {
		return err
	}
	return t.Say(map[string]string{"file": cmd.File, "trust": line}, "%s\n", line)
}
