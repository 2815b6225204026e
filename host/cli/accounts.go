package cli

import (
	"context"
	"errors"
	"strings"
	"time"

	"assay/host/access/signin"
	"assay/host/installation"
	"assay/host/internal/terminal"
	"assay/host/web/console"
)

type accountsCmd struct {
	SignIn  accountsSignInCmd  `cmd:"" name:"signin" help:"${accounts_signin_cmd}"`
	SignOut accountsSignOutCmd `cmd:"" name:"signout" help:"${accounts_signout_cmd}"`
	Quota   accountsQuotaCmd   `cmd:"" help:"Set an account's checks a month, until its plan changes."`
}

type accountsSignInCmd struct {
	ID   string `arg:"" help:"ID of the account (acct_...). 'assay keys list' shows those of keys."`
	JSON bool   `help:"Print JSON."`
}

func (cmd *accountsSignInCmd) Run(ctx context.Context, cfg *installation.Config, t *terminal.Terminal) error {
	return installation.Use(ctx, cfg, t, func(b *installation.Backend) error {
		token, err := b.Store.NewLink(ctx, cmd.ID)
		if err != nil {
			return err
		}
		base := strings.TrimSuffix(cfg.URL, "/")
		if base == "" {
			base = cfg.Scheme() + cfg.Listen
		}
		link, until := base+console.LinkPath+token, b.Store.Now().Add(signin.LinkLife)
		if cmd.JSON {
			return t.JSON(map[string]any{"account": cmd.ID, "link": link, "expires_at": until})
		}
		t.Printf("%s\n\nThis link signs in to %s once, until %s UTC. Give it to the account's owner alone.\n", link,
			cmd.ID, until.UTC().Format(time.TimeOnly))
		return nil
	})
}

type accountsSignOutCmd struct {
	ID   string `arg:"" help:"ID of the account (acct_...)."`
	JSON bool   `help:"Print JSON."`
}

func (cmd *accountsSignOutCmd) Run(ctx context.Context, cfg *installation.Config, t *terminal.Terminal) error {
	return installation.Use(ctx, cfg, t, func(b *installation.Backend) error {
		if err := b.Store.CloseAccountSignIn(ctx, cmd.ID); err != nil {
			return err
		}
		if cmd.JSON {
			return t.JSON(map[string]string{"account": cmd.ID, "state": "signed out"})
		}
		t.Printf("Nobody is signed in to %s, and its sign-in code no longer works. Its keys do.\n", cmd.ID)
		return nil
	})
}

type accountsQuotaCmd struct {
	ID     string `arg:"" help:"ID of the account (acct_...)."`
	Checks int32  `arg:"" help:"Checks a month, from 0 on."`
	JSON   bool   `help:"Print JSON."`
}

// Validate rejects a negative quota. Kong calls it.
func (cmd *accountsQuotaCmd) Validate() error {
	if cmd.Checks < 0 {
		return errors.New("the quota must not be negative")
	}
	return nil
}

func (cmd *accountsQuotaCmd) Run(ctx context.Context, cfg *installation.Config, t *terminal.Terminal) error {
	return installation.Use(ctx, cfg, t, func(b *installation.Backend) error {
		if err := b.Store.SetQuota(ctx, cmd.ID, int(cmd.Checks)); err != nil {
			return err
		}
		if cmd.JSON {
			return t.JSON(map[string]any{"account": cmd.ID, "quota": cmd.Checks})
		}
		t.Printf("%s has %d checks a month until its plan changes. The audit log has a record of it.\n", cmd.ID,
			cmd.Checks)
		return nil
	})
}
