package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"assay/host/entity"
	"assay/host/rehearsal"
	"assay/host/sandbox"
	"assay/registry"
)

type pluginRunCmd struct {
	Plugin  string `arg:"" help:"${plugin_path}"`
	Value   string `arg:"" help:"Domain, email address, phone number or IBAN."`
	Type    string `enum:"domain,email,phone,iban,auto" default:"auto" help:"Type of the value: ${enum}."`
	Country string `placeholder:"CC" help:"The request's region.country: ISO 3166-1 alpha-2, or EU."`
	Facts   string `placeholder:"FILE" help:"${plugin_facts}"`
	JSON    bool   `help:"Print JSON."`
}

func (cmd *pluginRunCmd) Run(ctx context.Context, t *terminal) error {
	subject := rehearsal.Subject{Type: entity.Type(cmd.Type), Value: cmd.Value, Country: cmd.Country}
	if cmd.Type == "auto" {
		subject.Type = entity.Guess(cmd.Value)
	}
	if cmd.Facts != "" {
		text, err := readFile(cmd.Facts)
		if err == nil {
			err = json.Unmarshal(text, &subject.Facts)
		}
		if err != nil {
			return fmt.Errorf("reading facts, a JSON object of texts: %w", err)
		}
	}
	return withPlugin(ctx, t, cmd.Plugin, func(p *sandbox.Plugin, _ registry.Module) error {
		call, err := rehearsal.Run(ctx, p, subject)
		if err != nil {
			return err
		}
		if cmd.JSON {
			err = t.json(call)
		} else {
			printCall(t, call, "")
		}
		if err == nil && call.Outcome == rehearsal.Failed {
			err = errors.New("the call failed")
		}
		return err
	})
}
