package main

import (
	"context"
	"errors"

	"assay/host/entity"
)

type graphCmd struct {
	Forget graphForgetCmd `cmd:"" help:"Take out what an account has put in, or what was seen of a value, for good. Revoke the keys of a bad actor before."`
}

type graphForgetCmd struct {
	Value   string `arg:"" optional:"" help:"A domain, email address, phone number or IBAN (default: all that the account has put in)."`
	Type    string `enum:"domain,email,phone,iban,auto" default:"auto" help:"What the value is: ${enum}."`
	Country string `placeholder:"CC" help:"Read a phone number in national format as this country's."`
	Account string `placeholder:"ID" help:"Only what this account has put in (default: what all have, of the value)."`
	JSON    bool   `help:"Print JSON."`
}

// Validate says what is wrong with the flags. Kong calls it.
func (cmd *graphForgetCmd) Validate() error {
	if cmd.Value == "" && cmd.Account == "" {
		return errors.New("give a value, --account, or both")
	}
	return nil
}

// forgotten is what `assay graph forget --json` prints.
type forgotten struct {
	Sightings int64 `json:"sightings"`
	Links     int64 `json:"links"`
}

// Run takes out what was asked for. That there was nothing is no error.
func (cmd *graphForgetCmd) Run(ctx context.Context, cfg *Config, t *terminal) error {
	return withBackend(ctx, cfg, t, func(b *backend) error {
		gone, err := cmd.forget(ctx, b)
		if err != nil {
			return err
		}
		if cmd.JSON {
			return t.json(gone)
		}
		t.printf("Taken out of the reputation graph: %d sightings and %d links.\n", gone.Sightings, gone.Links)
		return nil
	})
}

func (cmd *graphForgetCmd) forget(ctx context.Context, b *backend) (gone forgotten, err error) {
	if cmd.Value == "" {
		gone.Sightings, gone.Links, err = b.store.ForgetAccountSightings(ctx, cmd.Account)
		return gone, err
	}
	kind := entity.Type(cmd.Type)
	if cmd.Type == "auto" {
		kind = entity.Guess(cmd.Value)
	}
	e, err := entity.Parse(kind, cmd.Value, cmd.Country)
	if err != nil {
		return gone, err
	}
	sightings, links, err := b.store.ForgetSightings(ctx, cmd.Account, e)
	return forgotten{int64(sightings), int64(links)}, err
}
