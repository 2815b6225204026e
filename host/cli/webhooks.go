package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"assay/host/check"
	"assay/host/customer/webhook"
	"assay/host/installation"
	"assay/host/internal/terminal"
	"assay/host/server"
	"assay/host/store"
	"assay/host/web/api"
)

type webhooksCmd struct {
	Set    webhooksSetCmd    `cmd:"" help:"Set an account's webhook URL and print a new signing secret."`
	List   webhooksListCmd   `cmd:"" help:"List endpoints with counts of their events, or one account's latest events."`
	Resend webhooksResendCmd `cmd:"" help:"Resend failed events: by reference, or all of an account since a time."`
	Test   webhooksTestCmd   `cmd:"" help:"Send a test event to an account's endpoint."`
	Rotate webhooksRotateCmd `cmd:"" help:"${webhooks_rotate_cmd}"`
	Enable webhooksEnableCmd `cmd:"" help:"Enable an endpoint that was disabled because every attempt failed for days."`
	Remove webhooksRemoveCmd `cmd:"" help:"Remove an account's endpoint and delete the payloads of its events."`
}

type webhooksSetCmd struct {
	Account string `required:"" placeholder:"ID" help:"The account."`
	URL     string `required:"" placeholder:"URL" help:"${webhooks_url}"`
	JSON    bool   `help:"Print JSON."`
}

// Validate rejects invalid endpoint URLs. Kong calls it.
func (cmd *webhooksSetCmd) Validate() error {
	_, err := webhook.ParseURL(cmd.URL)
	return err
}

func (cmd *webhooksSetCmd) Run(ctx context.Context, cfg *installation.Config, t *terminal.Terminal) error {
	url, err := webhook.ParseURL(cmd.URL)
	if err != nil {
		return err
	}
	// Only a warning, because the hosts that call the URL may have other settings, and check it each time.
	allow, err := cfg.WebhookNetworks()
	if err != nil {
		return err
	}
	guard, err := webhook.NewGuard(allow)
	if err != nil {
		return err
	}
	if err := guard.CheckURL(url); err != nil {
		fmt.Fprintf(t.Err, "warning: %v: a host calls it only if its ASSAY_WEBHOOK_ALLOW permits the address\n", err)
	}
	return installation.Use(ctx, cfg, t, func(b *installation.Backend) error {
		secret, err := b.Store.SetEndpoint(ctx, cmd.Account, url)
		if err != nil {
			return err
		}
		return printSecret(t, secret, cmd.JSON)
	})
}

// printSecret prints a webhook secret.
func printSecret(t *terminal.Terminal, secret string, asJSON bool) error {
	if asJSON {
		return t.JSON(map[string]string{"secret": secret})
	}
	t.Printf("secret  %s\n\nThe secret is shown only once.\n", secret)
	return nil
}

type webhooksListCmd struct {
	Account string `placeholder:"ID" help:"Only this account's endpoint."`
	Events  bool   `help:"List the account's latest events and their attempts instead."`
	State   string `enum:",pending,delivered,failed" default:"" help:"Only pending, delivered or failed events."`
	Limit   int    `default:"20" help:"Maximum number of events."`
	JSON    bool   `help:"Print JSON."`
}

// Validate rejects invalid combinations of flags. Kong calls it.
func (cmd *webhooksListCmd) Validate() error {
	switch {
	case cmd.Events && cmd.Account == "":
		return errors.New("--events needs --account")
	case cmd.State != "" && !cmd.Events:
		return errors.New("--state needs --events")
	case cmd.Limit < 1 || cmd.Limit > 1000:
		return errors.New("--limit must be from 1 to 1000")
	}
	return nil
}

func (cmd *webhooksListCmd) Run(ctx context.Context, cfg *installation.Config, t *terminal.Terminal) error {
	return installation.Use(ctx, cfg, t, func(b *installation.Backend) error {
		if cmd.Events {
			return cmd.events(ctx, b.Store, t)
		}
		endpoints, err := b.Store.Endpoints(ctx, cmd.Account)
		if err != nil {
			return err
		}
		if cmd.JSON {
			return t.JSON(endpoints)
		}
		rows := make([][]string, len(endpoints))
		for i, e := range endpoints {
			rows[i] = []string{e.AccountID, e.URL, endpointState(e), fmt.Sprint(e.Pending), fmt.Sprint(e.Delivered),
				fmt.Sprint(e.Failed), e.CreatedAt.UTC().Format(time.DateTime)}
		}
		return t.Table([]string{"ACCOUNT", "URL", "STATE", "PENDING", "DELIVERED", "FAILED", "SET (UTC)"}, rows)
	})
}

// endpointState describes the state of an endpoint and how long it has lasted.
func endpointState(e webhook.Endpoint) string {
	switch {
	case e.DisabledAt != nil:
		return "disabled since " + e.DisabledAt.UTC().Format(time.DateTime)
	case e.FailingSince != nil:
		return "failing since " + e.FailingSince.UTC().Format(time.DateTime)
	}
	return e.State
}

// loggedEvent is an event with its attempts.
type loggedEvent struct {
	webhook.Event
	Log []webhook.Attempt `json:"log"`
}

func (cmd *webhooksListCmd) events(ctx context.Context, s *store.Store, t *terminal.Terminal) error {
	events, err := s.RecentEvents(ctx, cmd.Account, cmd.State, 0, cmd.Limit)
	if err != nil {
		return err
	}
	logged := make([]loggedEvent, len(events))
	for i, e := range events {
		log, err := s.Attempts(ctx, cmd.Account, e.Ref)
		if err != nil {
			return err
		}
		logged[i] = loggedEvent{e, log}
	}
	if cmd.JSON {
		return t.JSON(logged)
	}
	var rows [][]string
	for _, e := range logged {
		last := ""
		if n := len(e.Log); n > 0 {
			last = cmp.Or(e.Log[n-1].Error, fmt.Sprint(e.Log[n-1].Status))
		}
		rows = append(rows, []string{fmt.Sprint(e.Sequence), e.Ref, e.Name, e.State, fmt.Sprint(e.Attempts),
			last, e.OccurredAt.UTC().Format(time.DateTime)})
	}
	return t.Table([]string{"NUMBER", "REF", "EVENT", "STATE", "ATTEMPTS", "LAST ANSWER", "AT (UTC)"}, rows)
}

type webhooksResendCmd struct {
	Refs    []string `arg:"" optional:"" name:"ref" help:"References of failed events."`
	Account string   `placeholder:"ID" help:"Resend all failed events of this account instead."`
	Since   string   `placeholder:"TIME" help:"${webhooks_since}"`
	JSON    bool     `help:"Print JSON."`
}

// Validate rejects invalid combinations of flags. Kong calls it.
func (cmd *webhooksResendCmd) Validate() error {
	if (len(cmd.Refs) > 0) == (cmd.Account != "" || cmd.Since != "") || (cmd.Account == "") != (cmd.Since == "") {
		return errors.New("expected references, or --account with --since")
	}
	if cmd.Since != "" {
		if _, err := since(cmd.Since, time.Now()); err != nil {
			return err
		}
	}
	return nil
}

// since parses a time, or a duration before now.
func since(text string, now time.Time) (time.Time, error) {
	if ago, err := time.ParseDuration(text); err == nil && ago >= 0 {
		return now.Add(-ago), nil
	}
	at, err := time.Parse(time.RFC3339, text)
	if err != nil {
		return time.Time{}, fmt.Errorf("since: %q is neither a time such as 2026-01-31T08:00:00Z nor a duration "+
			"such as 2h", text)
	}
	return at, nil
}

// resent is the output of the resend command: how many events were resent, and how many have lost their payload.
type resent struct {
	Resent int `json:"resent"`
	Gone   int `json:"gone"`
}

func (cmd *webhooksResendCmd) Run(ctx context.Context, cfg *installation.Config, t *terminal.Terminal) error {
	return installation.Use(ctx, cfg, t, func(b *installation.Backend) error {
		var done resent
		for _, ref := range cmd.Refs {
			if err := b.Store.ResendEvent(ctx, "", ref); err != nil {
				return err
			}
			done.Resent++
		}
		if cmd.Account != "" {
			from, err := since(cmd.Since, time.Now())
			if err != nil {
				return err
			}
			if done.Resent, done.Gone, err = b.Store.ResendFailed(ctx, cmd.Account, from); err != nil {
				return err
			}
		}
		if cmd.JSON {
			return t.JSON(done)
		}
		t.Printf("%d resent\n", done.Resent)
		if done.Gone > 0 {
			t.Printf("%d cannot be resent: their payloads have been deleted\n", done.Gone)
		}
		return nil
	})
}

type webhooksTestCmd struct {
	Account string        `required:"" placeholder:"ID" help:"The account."`
	Verdict check.Verdict `enum:"review,block" default:"review" help:"Verdict of the event: review or block."`
	JSON    bool          `help:"Print JSON."`
}

func (cmd *webhooksTestCmd) Run(ctx context.Context, cfg *installation.Config, t *terminal.Terminal) error {
	return installation.Use(ctx, cfg, t, func(b *installation.Backend) error {
		ref, err := b.Store.SendTestEvent(ctx, cmd.Account, cmd.Verdict)
		if err != nil {
			return err
		}
		if cmd.JSON {
			return t.JSON(map[string]string{"ref": ref})
		}
		t.Printf("%s is queued; a running host will send it\n", ref)
		return nil
	})
}

type webhooksRotateCmd struct {
	Account string `required:"" placeholder:"ID" help:"The account."`
	Now     bool   `help:"Revoke the old secret at once, as after a leak."`
	JSON    bool   `help:"Print JSON."`
}

func (cmd *webhooksRotateCmd) Run(ctx context.Context, cfg *installation.Config, t *terminal.Terminal) error {
	overlap := webhook.SecretOverlap
	if cmd.Now {
		overlap = 0
	}
	return installation.Use(ctx, cfg, t, func(b *installation.Backend) error {
		secret, err := b.Store.RotateSecret(ctx, cmd.Account, overlap)
		if err != nil {
			return err
		}
		return printSecret(t, secret, cmd.JSON)
	})
}

type webhooksEnableCmd struct {
	Account string `required:"" placeholder:"ID" help:"The account."`
	JSON    bool   `help:"Print JSON."`
}

func (cmd *webhooksEnableCmd) Run(ctx context.Context, cfg *installation.Config, t *terminal.Terminal) error {
	return installation.Use(ctx, cfg, t, func(b *installation.Backend) error {
		if err := b.Store.EnableEndpoint(ctx, cmd.Account); err != nil {
			return err
		}
		if cmd.JSON {
			return t.JSON(map[string]string{"account": cmd.Account, "state": "enabled"})
		}
		t.Printf("%s is enabled. To send the events that failed meanwhile:\n"+
			"  assay webhooks resend --account %s --since 72h\n", cmd.Account, cmd.Account)
		return nil
	})
}

type webhooksRemoveCmd struct {
	Account string `required:"" placeholder:"ID" help:"The account."`
	JSON    bool   `help:"Print JSON."`
}

func (cmd *webhooksRemoveCmd) Run(ctx context.Context, cfg *installation.Config, t *terminal.Terminal) error {
	return installation.Use(ctx, cfg, t, func(b *installation.Backend) error {
		if err := b.Store.RemoveEndpoint(ctx, cmd.Account); err != nil {
			return err
		}
		if cmd.JSON {
			return t.JSON(map[string]string{"account": cmd.Account, "state": "removed"})
		}
		t.Printf("%s no longer receives events.\n", cmd.Account)
		return nil
	})
}

var _ api.Events = server.EventFeed{}
