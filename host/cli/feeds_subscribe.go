package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"assay/host/entity"
	"assay/host/facts/feed"
	"assay/host/installation"
	"assay/host/internal/terminal"
)

type feedsSubscribeCmd struct {
	From          string  `arg:"" name:"name|url" help:"${feeds_subscribe_from}"`
	Every         listAge `placeholder:"AGE" help:"${feeds_every}"`
	Expires       listAge `placeholder:"AGE" help:"${feeds_subscribe_expires}"`
	Name          string  `placeholder:"NAME" help:"${feeds_name}"`
	Kind          string  `enum:",bad,good,ranked" default:"" placeholder:"KIND" help:"${feeds_subscribe_kind}"`
	Format        string  `enum:",${formats}" default:"" placeholder:"FORMAT" help:"${feeds_format}"`
	Column        string  `placeholder:"COLUMN" help:"${feeds_column}"`
	Category      string  `placeholder:"THREAT" help:"Threat of entries that do not name one: ${threats}."`
	Country       string  `placeholder:"CC" help:"${feeds_country}"`
	Licence       string  `placeholder:"TEXT" help:"Licence of the list, stored with it."`
	NonCommercial bool    `help:"${feeds_non_commercial}"`
	terminal.Output
}

// How long a list is used after its publisher last confirmed it, unless --expires says otherwise.
const (
	defaultEvery   = 6 * time.Hour
	defaultExpires = 30 * 24 * time.Hour
	freshIntervals = 4              // a list is out of date after this many intervals,
	minFresh       = 24 * time.Hour // but not before
)

// subscription returns the subscription to store.
func (cmd *feedsSubscribeCmd) subscription() (feed.Subscription, error) {
	s := feed.Subscription{Name: cmd.Name, URL: cmd.From, Kind: feed.Kind(cmd.Kind), Format: feed.Format(cmd.Format),
		Column: cmd.Column, Category: cmd.Category, Country: cmd.Country, Licence: cmd.Licence,
		Every: time.Duration(cmd.Every), ExpiresAfter: time.Duration(cmd.Expires)}
	if !isURL(cmd.From) {
		r, ok := feed.FromCatalogue(cmd.From)
		if !ok {
			return s, fmt.Errorf("%q is neither a URL nor a list of `assay feeds recommend`", cmd.From)
		}
		if r.Terms == feed.NonCommercial && !cmd.NonCommercial {
			return s, fmt.Errorf("the terms of %s forbid commercial use (%s): confirm yours with --non-commercial",
				r.Name, r.Adds)
		}
		s.URL, s.Name = r.URL, cmp.Or(s.Name, r.Name)
		s.Kind, s.Format = cmp.Or(s.Kind, r.Kind), cmp.Or(s.Format, r.Format)
		s.Column, s.Category = cmp.Or(s.Column, r.Column), cmp.Or(s.Category, string(r.Category))
		s.Licence, s.Every = cmp.Or(s.Licence, r.Licence), cmp.Or(s.Every, r.Every)
	}
	if s.Name == "" || s.Kind == "" {
		return s, errors.New("a URL needs --name and --kind, and usually --category")
	}
	// The rules of an import apply.
	imported := feedsImportCmd{Name: s.Name, Kind: string(s.Kind), Category: s.Category, Country: s.Country,
		Licence: s.Licence}
	if err := imported.Validate(); err != nil {
		return s, err
	}
	country, err := entity.Country(s.Country)
	if err != nil {
		return s, err
	}
	s.Country, s.Source = country, feed.RedactURL(s.URL)
	s.Format, s.Every = cmp.Or(s.Format, feed.Auto), cmp.Or(s.Every, defaultEvery)
	s.FreshFor = max(freshIntervals*s.Every, minFresh)
	s.ExpiresAfter = cmp.Or(s.ExpiresAfter, max(defaultExpires, 2*s.FreshFor))
	if s.ExpiresAfter < s.Every {
		return s, errors.New("--expires must not be shorter than --every")
	}
	s.FreshFor = min(s.FreshFor, s.ExpiresAfter)
	return s, nil
}

func (cmd *feedsSubscribeCmd) Run(ctx context.Context, c *installation.Command) error {
	subscription, err := cmd.subscription()
	if err != nil {
		return err
	}
	s, err := c.Open(ctx)
	if err != nil {
		return err
	}
	if err := s.Store.Subscribe(ctx, subscription); err != nil {
		return err
	}
	return fetchNow(ctx, s, subscription.Name)
}

// fetchNow fetches a subscription in this process and prints the outcome.
func fetchNow(ctx context.Context, s *installation.Session, name string) error {
	c, err := s.Store.ClaimSubscription(ctx, name, feed.ClaimLease)
	if err != nil {
		return err
	}
	if c == nil { // a running host was faster
		s.Stage("a host is fetching " + name + ": see `assay feeds status`")
		return nil
	}
	s.Stage("fetching " + name)
	began := time.Now()
	result, err := installation.NewSubscriber(s.Store, s.Config, installation.QuietLog(s.Terminal)).Fetch(ctx, c)
	if err != nil {
		return fmt.Errorf("%w\nThe subscription is stored, and hosts try again: see `assay feeds status`", err)
	}
	return showImport(s.Terminal, c.Name, c.Kind, result.Report, result.Change, time.Since(began))
}

type feedsUnsubscribeCmd struct{ ofList }

func (cmd *feedsUnsubscribeCmd) Run(ctx context.Context, s *installation.Session) error {
	if err := s.Store.Unsubscribe(ctx, cmd.Name); err != nil {
		return err
	}
	return s.Say(map[string]string{"name": cmd.Name, "state": "unsubscribed"},
		"%s is no longer fetched. Its entries apply until they expire, or until `assay feeds withdraw`.\n", cmd.Name)
}

type feedsAcceptCmd struct{ ofList }

func (cmd *feedsAcceptCmd) Run(ctx context.Context, s *installation.Session) error {
	if err := s.Store.AcceptSubscribed(ctx, cmd.Name); err != nil {
		return err
	}
	return fetchNow(ctx, s, cmd.Name)
}
