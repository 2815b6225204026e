package plugin

import (
	"path/filepath"
	"strings"

	"assay/host/internal/terminal"
	"assay/registry/project"
)

type pluginNewCmd struct {
	Name  string `arg:"" help:"Name of the layer, and of its folder in the working directory."`
	Lang  string `enum:"go,rust,assemblyscript,c" default:"go" help:"Programming language: ${enum}."`
	Empty bool   `help:"Without the example: a layer that scores nothing yet."`
	terminal.Output
}

// newProject is the JSON output of `assay plugin new`.
type newProject struct {
	Folder   string           `json:"folder"`
	Language project.Language `json:"language"`
	Files    []string         `json:"files"`
}

func (cmd *pluginNewCmd) Run(t *terminal.Terminal) error {
	files, err := project.Create(cmd.Name, cmd.Name, project.Language(cmd.Lang), cmd.Empty)
	if err != nil {
		return err
	}
	return t.Say(newProject{cmd.Name, project.Language(cmd.Lang), files},
		"%s\n\nRead %s, then:\n\n  cd %s\n  assay plugin test .\n", strings.Join(files, "\n"),
		filepath.Join(cmd.Name, "README.md"), cmd.Name)
}
