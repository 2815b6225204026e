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

// answered is the JSON output of both commands: what each account holds or erased, if anything.
type answered struct {
	Type     entity.Type    `json:"type"`
	Value    string         `json:"value"`
	Accounts map[string]any `json:"accounts"`
}

// each calls f for every account. It leaves out accounts for which f returns privacy.ErrUnknownSubject.
func (p *person) each(
	ctx context.Context, s *installation.Session, f func(c check.Caller, whose privacy.Selector) (any, error),
) (answered, error) {
	e, err := entity.Parse(entity.Type(p.Type), p.Value, p.Country)
	if err != nil {
		return answered{}, err
	}
	all := answered{e.Type, e.Value, map[string]any{}}
	callers, err := s.Store.OperatorCallers(ctx)
	for _, c := range callers {
		data, err := f(c, privacy.Selector{Entity: &e})
		switch {
		case err == nil:
			all.Accounts[c.Account] = data
		case !errors.Is(err, privacy.ErrUnknownSubject):
			return all, err
		}
	}
	return all, err
}

type privacyExportCmd struct{ person }

// Run prints JSON, which the operator can hand over.
func (cmd *privacyExportCmd) Run(ctx context.Context, s *installation.Session) error {
	all, err := cmd.each(ctx, s, func(c check.Caller, whose privacy.Selector) (any, error) {
		return exportPages(ctx, s.Store, c, whose)
	})
	if err != nil {
		return err
	}
	return s.JSON(all)
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

// Run succeeds if there is nothing to erase.
func (cmd *privacyEraseCmd) Run(ctx context.Context, s *installation.Session) error {
	all, err := cmd.each(ctx, s, func(c check.Caller, whose privacy.Selector) (any, error) {
		done, err := s.Store.Erase(ctx, c, whose)
		if err == nil && len(done.Erasures) == 0 && done.Overrides == 0 {
			err = privacy.ErrUnknownSubject
		}
		return done, err
	})
	if err != nil {
		return err
	}
	return s.Say(all, "Erased for %d of the accounts. The audit log of each has a record of it.\n", len(all.Accounts))
}
