package cli

import (
	"cmp"
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"assay/host/facts/feed"
	"assay/host/installation"
	"assay/host/internal/terminal"
)

type feedsCmd struct {
	Recommend   feedsRecommendCmd   `cmd:"" help:"Show public lists that can be subscribed to, with their terms."`
	Subscribe   feedsSubscribeCmd   `cmd:"" help:"${feeds_subscribe_cmd}"`
	Unsubscribe feedsUnsubscribeCmd `cmd:"" help:"Stop fetching a list. Its entries stay until they expire."`
	Status      feedsStatusCmd      `cmd:"" help:"Show what became of the subscribed lists."`
	Accept      feedsAcceptCmd      `cmd:"" help:"Accept a version that is held back because of its size."`
	Import      feedsImportCmd      `cmd:"" help:"${feeds_import_cmd}"`
	List        feedsListCmd        `cmd:"" help:"List the lists."`
	Withdraw    feedsWithdrawCmd    `cmd:"" help:"${feeds_withdraw_cmd}"`
}

type feedsRecommendCmd struct{ terminal.Output }

func (cmd *feedsRecommendCmd) Run(t *terminal.Terminal) error {
	var text strings.Builder
	lists := feed.Catalogue()
	for _, l := range lists {
		mark := ""
		if l.Terms != feed.Commercial {
			mark = "! "
		}
		fmt.Fprintf(&text, "%s (%s)\n  %s.\n  %s%s; %s\n  %s\n\n", l.Name, cmp.Or(string(l.Category), string(l.Kind)),
			l.Adds, mark, l.Licence, l.Terms, l.URL)
	}
	return t.Say(lists, "%sSubscribe with: assay feeds subscribe NAME. Read the publisher's terms first; they may "+
		"have changed.\n", &text)
}

type feedsListCmd struct{ terminal.Output }

func (cmd *feedsListCmd) Run(ctx context.Context, s *installation.Session) error {
	feeds, err := s.Store.Feeds(ctx)
	if err != nil {
		return err
	}
	now := time.Now()
	header := []string{"LIST", "KIND", "CATEGORY", "ENTRIES", "IMPORTED (UTC)", "EXPIRES (UTC)", "LICENCE", "SOURCE"}
	return terminal.List(s.Terminal, feeds, header, func(f feed.List) []string {
		expires := "never"
		if f.ExpiresAt != nil {
			expires = f.ExpiresAt.UTC().Format(time.DateTime)
		}
		if !f.InForce(now) {
			expires = "expired " + expires
		}
		return []string{
			f.Name, string(f.Kind), f.Category, strconv.Itoa(f.Entries), f.ImportedAt.UTC().Format(time.DateTime),
			expires, f.Licence, f.Source,
		}
	})
}

// ofList is the argument of a command about one list.
type ofList struct {
	Name string `arg:"" help:"The list's name."`
	terminal.Output
}

type feedsWithdrawCmd struct{ ofList }

func (cmd *feedsWithdrawCmd) Run(ctx context.Context, s *installation.Session) error {
	if err := s.Store.WithdrawFeed(ctx, cmd.Name); err != nil {
		return err
	}
	return s.Say(map[string]string{"name": cmd.Name, "state": "withdrawn"}, "%s is withdrawn.\n", cmd.Name)
}

type feedsStatusCmd struct{ terminal.Output }

// listStatus is one subscription in the output of `assay feeds status --json`.
type listStatus struct {
	feed.Subscription
	State feed.State `json:"state"`
	Every string     `json:"every"`
}

func (cmd *feedsStatusCmd) Run(ctx context.Context, s *installation.Session) error {
	lists, err := s.Store.Subscriptions(ctx)
	if err != nil {
		return err
	}
	now := time.Now()
	all := make([]listStatus, len(lists))
	for i, l := range lists {
		all[i] = listStatus{l, l.State(now), strings.TrimSuffix(l.Every.String(), "0m0s")}
	}
	header := []string{"LIST", "STATE", "ENTRIES", "CONFIRMED (UTC)", "NEXT", "FRESH UNTIL", "EXPIRES", "ERROR"}
	return terminal.List(s.Terminal, all, header, func(l listStatus) []string {
		note := l.Error
		if l.Held != nil {
			note += ": see `assay feeds accept`"
		}
		return []string{l.Name, string(l.State), strconv.Itoa(l.Entries), shownTime(l.ConfirmedAt),
			shownTime(&l.NextFetchAt), shownTime(l.FreshUntil), shownTime(l.ExpiresAt), note}
	})
}

func shownTime(at *time.Time) string {
	if at == nil {
		return "-"
	}
	return at.UTC().Format("2006-01-02 15:04")
}
