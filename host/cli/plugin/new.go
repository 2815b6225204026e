package plugin

import (
	"path/filepath"

	"assay/host/internal/terminal"
	"assay/registry/project"
)

type pluginNewCmd struct {
	Name string `arg:"" help:"Name of the layer, and of its folder in the working directory."`
	Lang string `enum:"go,rust,assemblyscript,c" default:"go" help:"Programming language: ${enum}."`
	JSON bool   `help:"Print JSON."`
}

// newProject is the JSON output of `assay plugin new`.
type newProject struct {
	Folder   string           `json:"folder"`
	Language project.Language `json:"language"`
	Files    []string         `json:"files"`
}

func (cmd *pluginNewCmd) Run(t *terminal.Terminal) error {
	files, err := project.Create(cmd.Name, cmd.Name, project.Language(cmd.Lang))
	if err != nil {
		return err
	}
	if cmd.JSON {
		return t.JSON(newProject{cmd.Name, project.Language(cmd.Lang), files})
	}
	for _, file := range files {
		t.Printf("%s\n", file)
	}
	t.Printf("\nRead %s, then:\n\n  cd %s\n  assay plugin test .\n", filepath.Join(cmd.Name, "README.md"), cmd.Name)
	return nil
}

type pluginSDKCmd struct {
	Dir  string `arg:"" type:"existingdir" default:"." help:"Folder of the layer, with its manifest.json."`
	JSON bool   `help:"Print JSON: the files that were written."`
}

func (cmd *pluginSDKCmd) Run(t *terminal.Terminal) error {
	files, err := project.Update(cmd.Dir)
	if err != nil {
		return err
	}
	if cmd.JSON {
		return t.JSON(files)
	}
	for _, file := range files {
		t.Printf("%s\n", file)
	}
	return nil
}
