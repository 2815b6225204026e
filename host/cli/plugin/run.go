package plugin

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/go-json-experiment/json"

	"assay/host/entity"
	"assay/host/installation"
	"assay/host/internal/terminal"
	"assay/host/lineup/rehearsal"
	"assay/host/sandbox"
	"assay/registry"
)

type pluginRunCmd struct {
	Plugin  string `arg:"" help:"${plugin_path}"`
	Value   string `arg:"" help:"Domain, email address, phone number or IBAN."`
	Type    string `enum:"domain,email,phone,iban,auto" default:"auto" help:"Type of the value: ${enum}."`
	Country string `placeholder:"CC" help:"The request's region.country: ISO 3166-1 alpha-2, or EU."`
	Facts   string `placeholder:"FILE" help:"${plugin_facts}"`
	Live    bool   `help:"${plugin_live}"`
	terminal.Output
}

func (cmd *pluginRunCmd) Run(ctx context.Context, c *installation.Command) error {
	e, err := entity.Parse(entity.Type(cmd.Type), cmd.Value, cmd.Country)
	if err != nil {
		return err
	}
	given := map[string]string{}
	if cmd.Facts != "" {
		text, err := installation.ReadFileOrStdin(cmd.Facts)
		if err == nil {
			err = json.Unmarshal(text, &given)
		}
		if err != nil {
			return fmt.Errorf("reading facts, a JSON object of texts: %w", err)
		}
	}
	return withPlugin(ctx, c.Terminal, cmd.Plugin, func(p *sandbox.Plugin, m registry.Module) error {
		subject := rehearsal.Subject{Type: e.Type, Value: cmd.Value, Country: cmd.Country, Facts: given}
		if cmd.Live {
			if subject.Facts, err = lookUpFor(ctx, c, m.Manifest, e); err != nil {
				return err
			}
			maps.Copy(subject.Facts, given)
		}
		call, err := rehearsal.Run(ctx, p, subject)
		if err != nil {
			return err
		}
		call.Unread = slices.DeleteFunc(call.Unread, func(name string) bool { _, ok := given[name]; return !ok })
		err = c.Show(call, func() error { printCall(c.Terminal, call, ""); return nil })
		if err == nil && call.Outcome == rehearsal.Failed {
			err = errors.New("the call failed")
		}
		return err
	})
}

// lookUpFor returns the facts about an entity that a manifest declares.
func lookUpFor(ctx context.Context, c *installation.Command, m registry.Manifest, e entity.Entity) (
	found entity.Facts, err error) {
	err = withLookups(ctx, c, func(l *installation.Lookups) error {
		var unanswered []string
		found, unanswered, err = l.LookUp(ctx, "", e, m.Facts)
		printUnanswered(c.Terminal, unanswered)
		return err
	})
	return found, err
}
