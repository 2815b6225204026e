package cli

import (
	"cmp"
	"context"
	"errors"
	"strings"
	"time"

	"github.com/alecthomas/kong"

	"assay/host/access/signin"
	"assay/host/entity"
	"assay/host/installation"
	"assay/host/internal/terminal"
	"assay/host/web/console"
)

type accountsCmd struct {
	SignIn  accountsSignInCmd   `cmd:"" name:"sign-in-link" help:"${accounts_signin_cmd}"`
	SignOut accountsSignOutCmd  `cmd:"" name:"sign-out" help:"${accounts_signout_cmd}"`
	Quota   accountsQuotaCmd    `cmd:"" help:"Set an account's checks a month, until its plan changes."`
	Suspend accountsStandingCmd `cmd:"" help:"${accounts_suspend_cmd}"`
	Resume  accountsStandingCmd `cmd:"" help:"End the suspension of an account: its keys work again."`
}

// ofAccount is the argument of a command about one account.
type ofAccount struct {
	Account string `arg:"" name:"id" help:"ID of the account (acct_...). 'assay keys list' shows those of keys."`
	terminal.Output
}

type accountsStandingCmd struct {
	ofAccount
	Reason string `required:"" placeholder:"TEXT" help:"Why; stored with the account, not shown to its owner."`
}

// Validate checks the reason. Kong calls it.
func (cmd *accountsStandingCmd) Validate() error {
	return entity.ValidateText("--reason", cmd.Reason, maxReason, false)
}

const maxReason = 500 // bytes

func (cmd *accountsStandingCmd) Run(ctx context.Context, s *installation.Session, k *kong.Context) error {
	suspend := k.Selected().Name == "suspend"
	if err := s.Store.SetStanding(ctx, cmd.Account, suspend, cmd.Reason); err != nil {
		return err
	}
	state, text := "active", "%s is active: its keys work again. The audit log has a record of it.\n"
	if suspend {
		state = "suspended"
		text = "%s is suspended: hosts refuse all its keys with 403, until 'assay accounts resume'. The audit log " +
			"has a record of it.\n"
	}
	return s.Say(map[string]string{"account": cmd.Account, "state": state, "reason": cmd.Reason}, text, cmd.Account)
}

type accountsSignInCmd struct{ ofAccount }

func (cmd *accountsSignInCmd) Run(ctx context.Context, s *installation.Session) error {
	token, err := s.Store.NewLink(ctx, cmd.Account)
	if err != nil {
		return err
	}
	base := cmp.Or(strings.TrimSuffix(s.URL, "/"), s.Scheme()+s.Listen)
	link, until := base+console.LinkPath+token, s.Store.Now().Add(signin.LinkLife)
	return s.Say(map[string]any{"account": cmd.Account, "link": link, "expires_at": until},
		"%s\n\nThis link signs in to %s once, until %s UTC. Give it to the account's owner alone.\n", link,
		cmd.Account, until.UTC().Format(time.TimeOnly))
}

type accountsSignOutCmd struct{ ofAccount }

func (cmd *accountsSignOutCmd) Run(ctx context.Context, s *installation.Session) error {
	if err := s.Store.CloseAccountSignIn(ctx, cmd.Account); err != nil {
		return err
	}
	return s.Say(map[string]string{"account": cmd.Account, "state": "signed out"},
		"Nobody is signed in to %s, and its sign-in code no longer works. Its keys do.\n", cmd.Account)
}

type accountsQuotaCmd struct {
	ofAccount
	Checks int32 `required:"" placeholder:"N" help:"Checks a month, from 0 on."`
}

// Validate rejects a negative quota. Kong calls it.
func (cmd *accountsQuotaCmd) Validate() error {
	if cmd.Checks < 0 {
		return errors.New("the quota must not be negative")
	}
	return nil
}

func (cmd *accountsQuotaCmd) Run(ctx context.Context, s *installation.Session) error {
	if err := s.Store.SetQuota(ctx, cmd.Account, int(cmd.Checks)); err != nil {
		return err
	}
	return s.Say(map[string]any{"account": cmd.Account, "quota": cmd.Checks},
		"%s has %d checks a month until its plan changes. The audit log has a record of it.\n", cmd.Account, cmd.Checks)
}
