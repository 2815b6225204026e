package cli

import (
	"cmp"
	"context"
	"errors"

	"assay/host/entity"
	"assay/host/installation"
	"assay/host/internal/terminal"
	"assay/host/store"
)

type graphCmd struct {
	Forget graphForgetCmd `cmd:"" help:"${graph_forget_cmd}"`
}

type graphForgetCmd struct {
	Value   string `arg:"" optional:"" help:"${graph_value}"`
	Type    string `enum:"domain,email,phone,iban,auto" default:"auto" help:"Type of the value: ${enum}."`
	Country string `placeholder:"CC" help:"Read a phone number in national format as a number of this country."`
	Account string `placeholder:"ID" help:"${graph_account}"`
	terminal.Output
}

// Validate checks the flags. Kong calls it.
func (cmd *graphForgetCmd) Validate() error {
	if cmd.Value == "" && cmd.Account == "" {
		return errors.New("give a value, --account, or both")
	}
	return nil
}

// forgetResult is the output of `assay graph forget --json`.
type forgetResult struct {
	Sightings int64 `json:"sightings"`
	Links     int64 `json:"links"`
}

// Run deletes what the flags select. It succeeds if there is nothing to delete.
func (cmd *graphForgetCmd) Run(ctx context.Context, s *installation.Session) error {
	deleted, err := cmd.forget(ctx, s.Store)
	if err = cmp.Or(err, s.Store.RequireAccount(ctx, cmd.Account)); err != nil {
		return err
	}
	return s.Say(deleted, "Deleted from the reputation graph: %d sightings and %d links.\n", deleted.Sightings,
		deleted.Links)
}

func (cmd *graphForgetCmd) forget(ctx context.Context, s *store.Store) (forgetResult, error) {
	if cmd.Value == "" {
		sightings, links, err := s.ForgetAccountSightings(ctx, cmd.Account)
		return forgetResult{sightings, links}, err
	}
	e, err := entity.Parse(entity.Type(cmd.Type), cmd.Value, cmd.Country)
	if err != nil {
		return forgetResult{}, err
	}
	sightings, links, err := s.ForgetSightings(ctx, cmd.Account, e)
	return forgetResult{int64(sightings), int64(links)}, err
}
