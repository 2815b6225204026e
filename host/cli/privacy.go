package cli

import (
	"context"
	"errors"

	"assay/host/check"
	"assay/host/customer/privacy"
	"assay/host/entity"
	"assay/host/installation"
	"assay/host/internal/terminal"
	"assay/host/store"
)

type privacyCmd struct {
	Export privacyExportCmd `cmd:"" help:"${privacy_export_cmd}"`
	Erase  privacyEraseCmd  `cmd:"" help:"${privacy_erase_cmd}"`
}

// person identifies the data of a person who writes to the operator.
type person struct {
	Value   string `arg:"" help:"The value: a domain, email address, phone number or IBAN."`
	Type    string `enum:"domain,email,phone,iban,auto" default:"auto" help:"Type of the value: ${enum}."`
	Country string `placeholder:"CC" help:"Read a phone number in national format as a number of this country."`
	terminal.Output
}

// each calls f for every account.
func (p *person) each(
	ctx context.Context, s *installation.Session, f func(c check.Caller, whose privacy.Selector) error,
) (e entity.Entity, err error) {
	if e, err = parseValue(p.Value, p.Type, p.Country); err != nil {
		return e, err
	}
	callers, err := s.Store.OperatorCallers(ctx)
	for _, c := range callers {
		if err = f(c, privacy.Selector{Entity: &e}); err != nil {
			break
		}
	}
	return e, err
}

type privacyExportCmd struct{ person }

// exported is what an account holds about a person.
type exported struct {
	Account string `json:"account"`
	*privacy.Export
}

// Run prints JSON, which the operator can hand over.
func (cmd *privacyExportCmd) Run(ctx context.Context, s *installation.Session) error {
	all := []exported{}
	e, err := cmd.each(ctx, s, func(c check.Caller, whose privacy.Selector) error {
		data, err := exportPages(ctx, s.Store, c, whose)
		if err == nil {
			all = append(all, exported{c.Account, data})
		}
		if errors.Is(err, privacy.ErrUnknownSubject) {
			return nil
		}
		return err
	})
	if err != nil {
		return err
	}
	return s.JSON(map[string]any{"type": e.Type, "value": e.Value, "accounts": all})
}

// exportPages returns all pages of an export as one.
func exportPages(ctx context.Context, s *store.Store, c check.Caller, whose privacy.Selector) (*privacy.Export, error) {
	all, err := s.Export(ctx, c, whose, privacy.Page{Limit: privacy.AtOnce})
	for err == nil && all.Next != nil {
		var page *privacy.Export
		if page, err = s.Export(ctx, c, whose, privacy.Page{After: *all.Next, Limit: privacy.AtOnce}); err == nil {
			all.Checks, all.Next = append(all.Checks, page.Checks...), page.Next
		}
	}
	return all, err
}

type privacyEraseCmd struct{ person }

// erasedTotal counts what was erased. Its JSON is the output of `assay privacy erase --json`.
type erasedTotal struct {
	Accounts  int `json:"accounts"`
	Checks    int `json:"erased"`
	Events    int `json:"webhook_events"`
	Sightings int `json:"graph_sightings"`
	Links     int `json:"graph_links"`
	Overrides int `json:"overrides"`
}

// Run succeeds if there is nothing to erase.
func (cmd *privacyEraseCmd) Run(ctx context.Context, s *installation.Session) error {
	var total erasedTotal
	_, err := cmd.each(ctx, s, func(c check.Caller, whose privacy.Selector) error {
		done, err := s.Store.Erase(ctx, c, whose)
		if err != nil {
			return err
		}
		if done.Checks+done.Events+done.Sightings+done.Links+done.Overrides > 0 {
			total.Accounts++
		}
		total.Checks, total.Events = total.Checks+done.Checks, total.Events+done.Events
		total.Sightings, total.Links = total.Sightings+done.Sightings, total.Links+done.Links
		total.Overrides += done.Overrides
		return nil
	})
	if err != nil {
		return err
	}
	return s.Say(total, "Erased the data of %d accounts: %d checks, %d webhook events, %d sightings and %d links of the "+
		"reputation graph, %d overrides. The audit log has a record of it.\n", total.Accounts, total.Checks,
		total.Events, total.Sightings, total.Links, total.Overrides)
}
