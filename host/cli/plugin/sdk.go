package plugin

import (
	"assay/host/internal/terminal"
	"assay/registry/project"
)

type pluginSDKCmd struct {
	Dir  string `arg:"" type:"existingdir" default:"." help:"Folder of the layer, with its manifest.json."`
	JSON bool   `help:"Print JSON: the files that were written."`
}

func (cmd *pluginSDKCmd) Run(t *terminal.Terminal) error {
	files, err := project.Update(cmd.Dir)
	if err != nil {
		return err
	}
	return t.Show(files, func() error {
		for _, file := range files {
			t.Printf("%s\n", file)
		}
		return nil
	})
}
