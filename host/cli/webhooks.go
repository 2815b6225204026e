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
)

type webhooksCmd struct {
	Set    webhooksSetCmd    `cmd:"" help:"${webhooks_set_cmd}"`
	List   webhooksListCmd   `cmd:"" help:"List endpoints with counts of their events, or one account's latest events."`
	Resend webhooksResendCmd `cmd:"" help:"Resend failed events: by reference, or all of an account since a time."`
	Test   webhooksTestCmd   `cmd:"" help:"Send a test event to an account's endpoint."`
	Rotate webhooksRotateCmd `cmd:"" help:"${webhooks_rotate_cmd}"`
	Enable webhooksEnableCmd `cmd:"" help:"Enable an endpoint that was disabled because every attempt failed for days."`
	Remove webhooksRemoveCmd `cmd:"" help:"Remove an account's endpoint and delete the payloads of its events."`
}

type webhooksSetCmd struct {
	ofAccount
	URL string `required:"" placeholder:"URL" help:"${webhooks_url}"`
}

// Validate rejects invalid endpoint URLs. Kong calls it.
func (cmd *webhooksSetCmd) Validate() error {
	_, err := webhook.ParseURL(cmd.URL)
	return err
}

func (cmd *webhooksSetCmd) Run(ctx context.Context, c *installation.Command) error {
	url, err := webhook.ParseURL(cmd.URL)
	if err != nil {
		return err
	}
	// Only a warning, because the hosts that call the URL may have other settings, and check it each time.
	allow, err := c.WebhookNetworks()
	if err != nil {
		return err
	}
	guard, err := webhook.NewGuard(allow)
	if err != nil {
		return err
	}
	if err := guard.CheckURL(url); err != nil {
		fmt.Fprintf(c.Err, "warning: %v: a host calls it only if its ASSAY_WEBHOOK_ALLOW permits the address\n", err)
	}
	s, err := c.Open(ctx)
	if err != nil {
		return err
	}
	err = s.Store.MoveEndpoint(ctx, cmd.Account, url)
	if err == nil {
		return s.Say(map[string]string{"account": cmd.Account, "url": url},
			"The webhook's URL has changed. Its secret stays the same.\n")
	}
	if !errors.Is(err, webhook.ErrNoEndpoint) {
		return err
	}
	secret, err := s.Store.SetEndpoint(ctx, cmd.Account, url)
	if err != nil {
		return err
	}
	return showSecret(s.Terminal, secret, "")
}

func showSecret(t *terminal.Terminal, secret, advice string) error {
	return t.Say(map[string]string{"secret": secret}, "secret  %s\n\nThe secret is shown only once.%s\n", secret,
		advice)
}

type webhooksListCmd struct {
	Account string `placeholder:"ID" help:"Only this account's endpoint."`
	Events  bool   `help:"List the account's latest events and their attempts instead."`
	State   string `enum:",pending,delivered,failed" default:"" help:"Only pending, delivered or failed events."`
	Limit   int    `default:"20" help:"Maximum number of events."`
	terminal.Output
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

func (cmd *webhooksListCmd) Run(ctx context.Context, s *installation.Session) error {
	if err := s.Store.RequireAccount(ctx, cmd.Account); err != nil {
		return err
	}
	if cmd.Events {
		return cmd.events(ctx, s)
	}
	endpoints, err := s.Store.Endpoints(ctx, cmd.Account)
	if err != nil {
		return err
	}
	header := []string{"ACCOUNT", "URL", "STATE", "PENDING", "DELIVERED", "FAILED", "SET (UTC)"}
	return terminal.List(s.Terminal, endpoints, header, func(e webhook.Endpoint) []string {
		return []string{e.AccountID, e.URL, endpointState(e), fmt.Sprint(e.Pending), fmt.Sprint(e.Delivered),
			fmt.Sprint(e.Failed), e.CreatedAt.UTC().Format(time.DateTime)}
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

func (cmd *webhooksListCmd) events(ctx context.Context, s *installation.Session) error {
	events, err := s.Store.RecentEvents(ctx, cmd.Account, cmd.State, 0, cmd.Limit)
	if err != nil {
		return err
	}
	logged := make([]loggedEvent, len(events))
	for i, e := range events {
		log, err := s.Store.Attempts(ctx, cmd.Account, e.Ref)
		if err != nil {
			return err
		}
		logged[i] = loggedEvent{e, log}
	}
	header := []string{"NUMBER", "REF", "EVENT", "STATE", "ATTEMPTS", "LAST ANSWER", "AT (UTC)"}
	return terminal.List(s.Terminal, logged, header, func(e loggedEvent) []string {
		last := ""
		if n := len(e.Log); n > 0 {
			last = cmp.Or(e.Log[n-1].Error, fmt.Sprint(e.Log[n-1].Status))
		}
		return []string{fmt.Sprint(e.Sequence), e.Ref, e.Name, e.State, fmt.Sprint(e.Attempts), last,
			e.OccurredAt.UTC().Format(time.DateTime)}
	})
}

type webhooksResendCmd struct {
	Refs    []string `arg:"" optional:"" name:"ref" help:"References of failed events."`
	Account string   `placeholder:"ID" help:"Resend all failed events of this account instead."`
	Since   string   `placeholder:"TIME" help:"${webhooks_since}"`
	terminal.Output
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

func (cmd *webhooksResendCmd) Run(ctx context.Context, s *installation.Session) error {
	var done resent
	failed := make([]error, len(cmd.Refs))
	for i, ref := range cmd.Refs {
		if failed[i] = s.Store.ResendEvent(ctx, "", ref); failed[i] == nil {
			done.Resent++
		}
	}
	if cmd.Account != "" {
		from, err := since(cmd.Since, time.Now())
		if err != nil {
			return err
		}
		if done.Resent, done.Gone, err = s.Store.ResendFailed(ctx, cmd.Account, from); err != nil {
			return err
		}
	}
	gone := ""
	if done.Gone > 0 {
		gone = fmt.Sprintf("%d cannot be resent: their payloads have been deleted\n", done.Gone)
	}
	return errors.Join(s.Say(done, "%d resent\n%s", done.Resent, gone), errors.Join(failed...))
}

type webhooksTestCmd struct {
	ofAccount
	Verdict check.Verdict `enum:"review,block" default:"review" help:"Verdict of the event: review or block."`
}

func (cmd *webhooksTestCmd) Run(ctx context.Context, s *installation.Session) error {
	ref, err := s.Store.SendTestEvent(ctx, cmd.Account, cmd.Verdict)
	if err != nil {
		return err
	}
	return s.Say(map[string]string{"ref": ref}, "%s is queued; a running host will send it\n", ref)
}

type webhooksRotateCmd struct {
	ofAccount
	Now bool `help:"Switch at once, as after a leak."`
}

func (cmd *webhooksRotateCmd) Run(ctx context.Context, s *installation.Session) error {
	overlap := webhook.SecretOverlap
	advice := fmt.Sprintf(" It signs X-Service-Signature from %s UTC. Until then the old one does, so the receiver "+
		"must accept both. After a leak, rotate with --now.", s.Store.Now().Add(overlap).UTC().Format(time.DateTime))
	if cmd.Now {
		overlap, advice = 0, ""
	}
	secret, err := s.Store.RotateSecret(ctx, cmd.Account, overlap)
	if err != nil {
		return err
	}
	return showSecret(s.Terminal, secret, advice)
}

type webhooksEnableCmd struct{ ofAccount }

func (cmd *webhooksEnableCmd) Run(ctx context.Context, s *installation.Session) error {
	if err := s.Store.EnableEndpoint(ctx, cmd.Account); err != nil {
		return err
	}
	return s.Say(map[string]string{"account": cmd.Account, "state": "enabled"},
		"%s is enabled. To send the events that failed meanwhile:\n"+
			"  assay webhooks resend --account %s --since 72h\n", cmd.Account, cmd.Account)
}

type webhooksRemoveCmd struct{ ofAccount }

func (cmd *webhooksRemoveCmd) Run(ctx context.Context, s *installation.Session) error {
	if err := s.Store.RemoveEndpoint(ctx, cmd.Account); err != nil {
		return err
	}
	return s.Say(map[string]string{"account": cmd.Account, "state": "removed"},
		"%s no longer receives events.\n", cmd.Account)
}
