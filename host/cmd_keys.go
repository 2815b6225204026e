package main

import (
	"context"
	"fmt"
	"time"

	"assay/host/check"
	"assay/host/store"
)

type keysCmd struct {
	Create keysCreateCmd `cmd:"" help:"Issue a key, shown this once."`
	List   keysListCmd   `cmd:"" help:"List keys and what their accounts have used this month."`
	Revoke keysRevokeCmd `cmd:"" help:"End a key, on every host at once."`
}

type keysCreateCmd struct {
	Plan    string `enum:"free,starter,pro" default:"free" help:"Plan of the new account: ${enum}."`
	Account string `help:"Give this account another key instead. Its keys share one quota." placeholder:"ID"`
	Name    string `default:"default" help:"What the key is for."`
	JSON    bool   `help:"Print JSON."`
}

func (cmd *keysCreateCmd) Run(ctx context.Context, cfg *Config, t *terminal) error {
	return withBackend(ctx, cfg, t, func(b *backend) error {
		plan, _ := check.PlanNamed(cmd.Plan)
		issued, err := issueKey(ctx, b.store, cmd.Account, plan, cmd.Name)
		if err != nil {
			return err
		}
		if cmd.JSON {
			return t.json(issued)
		}
		t.printf("key      %s\nid       %s\naccount  %s\nplan     %s\n\nThe key is shown this once: only its hash is kept.\n", issued.Secret, issued.ID, issued.Account, issued.Plan)
		return nil
	})
}

// issueKey issues a key to an account, or to a new one on plan when accountID is empty.
func issueKey(ctx context.Context, s *store.Store, accountID string, plan check.Plan, name string) (store.Issued,
	error) {
	if accountID == "" {
		var err error
		if accountID, err = s.CreateAccount(ctx, plan); err != nil {
			return store.Issued{}, err
		}
	}
	return s.CreateKey(ctx, accountID, name)
}

type keysListCmd struct {
	Account string `help:"Only this account's keys." placeholder:"ID"`
	JSON    bool   `help:"Print JSON."`
}

func (cmd *keysListCmd) Run(ctx context.Context, cfg *Config, t *terminal) error {
	return withBackend(ctx, cfg, t, func(b *backend) error {
		keys, err := b.store.Keys(ctx, cmd.Account)
		if err != nil {
			return err
		}
		if cmd.JSON {
			return t.json(keys)
		}
		rows := make([][]string, len(keys))
		for i, k := range keys {
			rows[i] = []string{k.ID, k.Hint, k.Name, k.State, k.AccountID, k.Plan, fmt.Sprint(k.Used),
				k.CreatedAt.UTC().Format(time.DateTime), dateTime(k.LastUsedAt), dateTime(k.ExpiresAt)}
		}
		return t.table([]string{"ID", "KEY", "NAME", "STATE", "ACCOUNT", "PLAN", "USED THIS MONTH", "CREATED (UTC)",
			"LAST USED", "EXPIRES"}, rows)
	})
}

// dateTime is a time in UTC, or a dash when there is none.
func dateTime(t *time.Time) string {
	if t == nil {
		return "-"
	}
	return t.UTC().Format(time.DateTime)
}

type keysRevokeCmd struct {
	ID   string `arg:"" help:"The key's id, key_..."`
	JSON bool   `help:"Print JSON."`
}

func (cmd *keysRevokeCmd) Run(ctx context.Context, cfg *Config, t *terminal) error {
	return withBackend(ctx, cfg, t, func(b *backend) error {
		if err := b.store.RevokeKey(ctx, cmd.ID); err != nil {
			return err
		}
		if cmd.JSON {
			return t.json(map[string]string{"id": cmd.ID, "state": "revoked"})
		}
		t.printf("%s is revoked.\n", cmd.ID)
		return nil
	})
}
