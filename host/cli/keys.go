package cli

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"time"

	"assay/host/access/apikey"
	"assay/host/check"
	"assay/host/installation"
	"assay/host/internal/terminal"
)

type keysCmd struct {
	Create keysCreateCmd `cmd:"" help:"Create a key. It is shown only once."`
	List   keysListCmd   `cmd:"" help:"List keys, with their accounts' usage this month."`
	Rotate keysRotateCmd `cmd:"" help:"${keys_rotate_cmd}"`
	Revoke keysRevokeCmd `cmd:"" help:"Revoke a key on all hosts at once."`
}

type keysCreateCmd struct {
	Plan    *string  `enum:"${plans}" xor:"account" help:"Plan of the new account: ${enum}; free if absent."`
	Account string   `placeholder:"ID" xor:"account" help:"${keys_account}"`
	Name    string   `default:"default" help:"Purpose of the key."`
	Scope   []string `placeholder:"NAME" help:"${keys_scope}"`
	Allow   []string `placeholder:"CIDR" help:"${keys_allow}"`
	Expires string   `placeholder:"TIME" help:"${keys_expires}"`
	Test    bool     `help:"${keys_test}"`
	terminal.Output
}

// wanted returns the key that the flags describe.
func (cmd *keysCreateCmd) wanted(now time.Time) (w apikey.Wanted, err error) {
	w.Limits.Test = cmd.Test
	if w.Name, err = apikey.ParseName(cmd.Name); err != nil {
		return w, fmt.Errorf("--name: %w", err)
	}
	if w.Limits.Scopes, err = apikey.ParseScopes(cmd.Scope); err != nil {
		return w, fmt.Errorf("--scope: %w", err)
	}
	if w.Limits.Networks, err = apikey.ParseNetworks(cmd.Allow); err != nil {
		return w, fmt.Errorf("--allow: %w", err)
	}
	if cmd.Expires == "" {
		return w, nil
	}
	ends, err := expiry(cmd.Expires, now)
	if err != nil {
		return w, err
	}
	w.Lifetime, err = apikey.LifetimeUntil(ends, now)
	return w, err
}

// Validate rejects invalid values. Kong calls it.
func (cmd *keysCreateCmd) Validate() error {
	_, err := cmd.wanted(time.Now())
	return err
}

func (cmd *keysCreateCmd) Run(ctx context.Context, s *installation.Session) error {
	wanted, err := cmd.wanted(s.Store.Now())
	if err != nil {
		return err
	}
	name := "free" // no default of the flag: kong would count it as set
	if cmd.Plan != nil {
		name = *cmd.Plan
	}
	plan, _ := check.PlanNamed(name)
	account, err := installation.AccountOn(ctx, s.Store, cmd.Account, plan)
	if err != nil {
		return err
	}
	issued, err := s.Store.IssueKey(ctx, account, wanted)
	if err != nil {
		return err
	}
	// A new account also gets its sign-in code, so that its API key never opens the dashboard.
	var code string
	if cmd.Account == "" {
		if code, err = s.Store.FirstCode(ctx, issued.Account); err != nil {
			return err
		}
	}
	advice := "\nStore the key now. The host keeps only a hash of it."
	if code != "" {
		advice = fmt.Sprintf("code     %s\n\nStore the key for programs, and the code, which signs in to the "+
			"dashboard, now. The host keeps only hashes of them.", code)
	}
	return s.Say(struct {
		apikey.Issued
		Code string `json:"sign_in_code,omitempty"`
	}{issued, code}, issuedText, issued.Secret, issued.ID, issued.Account, issued.Plan, advice)
}

// issuedText is the format of a new key for people, followed by advice.
const issuedText = "key      %s\nid       %s\naccount  %s\nplan     %s\n%s\n"

type keysListCmd struct {
	Account string `placeholder:"ID" help:"List only this account's keys."`
	terminal.Output
}

func (cmd *keysListCmd) Run(ctx context.Context, s *installation.Session) error {
	keys, err := s.Store.Keys(ctx, cmd.Account)
	if err = cmp.Or(err, s.Store.RequireAccount(ctx, cmd.Account)); err != nil {
		return err
	}
	header := []string{"ID", "KEY", "NAME", "STATE", "ACCOUNT", "PLAN", "USED THIS MONTH", "SCOPES", "ALLOWED",
		"CREATED (UTC)", "LAST USED", "EXPIRES"}
	return terminal.List(s.Terminal, keys, header, func(k apikey.Key) []string {
		scopes, networks := "all", "all"
		if k.Scopes != nil {
			scopes = fmt.Sprint(k.Scopes)
		}
		if k.Networks != nil {
			networks = fmt.Sprint(k.Networks)
		}
		return []string{k.ID, k.Hint, k.Name, string(k.State), k.Account, k.Plan, fmt.Sprint(k.Used),
			strings.Trim(scopes, "[]"), strings.Trim(networks, "[]"),
			k.CreatedAt.UTC().Format(time.DateTime), dateTime(k.LastUsedAt), dateTime(k.ExpiresAt)}
	})
}

// dateTime formats a time in UTC, or returns a dash for nil.
func dateTime(t *time.Time) string {
	if t == nil {
		return "-"
	}
	return t.UTC().Format(time.DateTime)
}

type keysRotateCmd struct {
	ID      string        `arg:"" help:"ID of the key (key_...)."`
	Overlap time.Duration `default:"24h" help:"How long the old key keeps working; 0s ends it now."`
	terminal.Output
}

// Validate rejects an overlap that is negative. Kong calls it.
func (cmd *keysRotateCmd) Validate() error {
	if cmd.Overlap < 0 {
		return fmt.Errorf("--overlap: %v is negative", cmd.Overlap)
	}
	return nil
}

func (cmd *keysRotateCmd) Run(ctx context.Context, s *installation.Session) error {
	issued, err := s.Store.RotateKey(ctx, "", cmd.ID, cmd.Overlap)
	if err != nil {
		return err
	}
	advice := fmt.Sprintf("\nStore the key now. The host keeps only a hash of it. %s works until %s UTC, or until it "+
		"would have expired.", cmd.ID, s.Store.Now().Add(cmd.Overlap).UTC().Format(time.DateTime))
	return s.Say(issued, issuedText, issued.Secret, issued.ID, issued.Account, issued.Plan, advice)
}

type keysRevokeCmd struct {
	ID string `arg:"" help:"ID of the key (key_...)."`
	terminal.Output
}

func (cmd *keysRevokeCmd) Run(ctx context.Context, s *installation.Session) error {
	if err := s.Store.RevokeKey(ctx, cmd.ID); err != nil {
		return err
	}
	return s.Say(map[string]string{"id": cmd.ID, "state": "revoked"}, "%s is revoked.\n", cmd.ID)
}
