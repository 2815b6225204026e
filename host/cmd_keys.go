package main

import (
	"context"
	"fmt"
	"time"

	"assay/host/apikey"
	"assay/host/check"
	"assay/host/store"
)

type keysCmd struct {
	Create keysCreateCmd `cmd:"" help:"Create a key. It is shown only once."`
	List   keysListCmd   `cmd:"" help:"List keys, with their accounts' usage this month."`
	Revoke keysRevokeCmd `cmd:"" help:"Revoke a key on all hosts at once."`
}

type keysCreateCmd struct {
	Plan    string `enum:"free,starter,pro" default:"free" help:"Plan of the new account: ${enum}."`
	Account string `placeholder:"ID" help:"${keys_account}"`
	Name    string `default:"default" help:"Purpose of the key."`
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
		t.printf("key      %s\nid       %s\naccount  %s\nplan     %s\n\n", issued.Secret, issued.ID, issued.Account,
			issued.Plan)
		t.printf("Store the key now. The host keeps only a hash of it.\n")
		return nil
	})
}

// issueKey creates a key for an account. If accountID is empty, it creates an account on the plan first.
func issueKey(
	ctx context.Context, s *store.Store, accountID string, plan check.Plan, name string,
) (apikey.Issued, error) {
	if accountID == "" {
		var err error
		if accountID, err = s.CreateAccount(ctx, plan); err != nil {
			return apikey.Issued{}, err
		}
	}
	return s.CreateKey(ctx, accountID, name)
}

type keysListCmd struct {
	Account string `placeholder:"ID" help:"List only this account's keys."`
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
			rows[i] = []string{k.ID, k.Hint, k.Name, string(k.State), k.Account, k.Plan, fmt.Sprint(k.Used),
				k.CreatedAt.UTC().Format(time.DateTime), dateTime(k.LastUsedAt), dateTime(k.ExpiresAt)}
		}
		return t.table([]string{"ID", "KEY", "NAME", "STATE", "ACCOUNT", "PLAN", "USED THIS MONTH", "CREATED (UTC)",
			"LAST USED", "EXPIRES"}, rows)
	})
}

// dateTime formats a time in UTC, or returns a dash for nil.
func dateTime(t *time.Time) string {
	if t == nil {
		return "-"
	}
	return t.UTC().Format(time.DateTime)
}

type keysRevokeCmd struct {
	ID   string `arg:"" help:"ID of the key (key_...)."`
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
