package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os/user"
	"strconv"
	"strings"
	"time"

	"assay/host/check"
	"assay/host/customer/override"
	"assay/host/entity"
	"assay/host/installation"
	"assay/host/internal/terminal"
)

type overridesCmd struct {
	Add    overridesAddCmd    `cmd:"" help:"Block or allow a value or a group of values for all accounts."`
	List   overridesListCmd   `cmd:"" help:"List overrides, those of all accounts too, and say which are ignored."`
	Remove overridesRemoveCmd `cmd:"" help:"Remove an override, also one of an account."`
}

type overridesAddCmd struct {
	Action      string `arg:"" enum:"block,allow" help:"${enum}."`
	Domain      string `placeholder:"NAME" xor:"target" help:"This domain name alone."`
	Email       string `placeholder:"ADDRESS" xor:"target" help:"This mailbox, with any tag."`
	Phone       string `placeholder:"NUMBER" xor:"target" help:"This phone number."`
	IBAN        string `placeholder:"IBAN" xor:"target" help:"This IBAN."`
	Registrable string `placeholder:"NAME" xor:"target" help:"All names under a registrable domain, and its mailboxes."`
	Range       string `placeholder:"DIGITS" xor:"target" help:"${overrides_range}"`
	Bank        string `placeholder:"CODE" xor:"target" help:"${overrides_bank}"`
	Reason      string `required:"" placeholder:"TEXT" help:"Why; stored encrypted."`
	Expires     string `required:"" placeholder:"TIME" help:"${overrides_expires}"`
	Author      string `placeholder:"NAME" help:"Who decided; the user who runs the command if absent."`
	terminal.Output
}

// wanted returns the override that the flags describe.
func (cmd *overridesAddCmd) wanted(now time.Time) (w override.Wanted, err error) {
	w = override.Wanted{Action: check.Verdict(cmd.Action), Reason: cmd.Reason, Author: cmd.Author}
	given := map[override.Kind]string{override.Domain: cmd.Domain, override.Email: cmd.Email,
		override.Phone: cmd.Phone, override.IBAN: cmd.IBAN, override.Registrable: cmd.Registrable,
		override.Range: cmd.Range, override.Bank: cmd.Bank}
	for kind, value := range given {
		if value == "" {
			continue
		}
		if w.Target, err = override.ParseTarget(kind, value, ""); err != nil {
			return w, err
		}
	}
	if w.Target.Kind == "" {
		return w, errors.New("one of --domain, --email, --phone, --iban, --registrable, --range and --bank is required")
	}
	w.ExpiresAt, err = expiry(cmd.Expires, now)
	return w, err
}

// Validate rejects invalid values and combinations of flags. Kong calls it.
func (cmd *overridesAddCmd) Validate() error {
	now := time.Now()
	w, err := cmd.wanted(now)
	if err == nil {
		err = w.Validate(now)
	}
	if invalid, ok := errors.AsType[*entity.InvalidError](err); ok {
		flags := strings.NewReplacer("registrable_domain", "registrable", "number_range", "range", "_at", "")
		return fmt.Errorf("--%s: %s", flags.Replace(invalid.Field), invalid.Reason)
	}
	return err
}

// expiry parses a time, or a number of days or a duration from now.
func expiry(text string, now time.Time) (time.Time, error) {
	if days, found := strings.CutSuffix(text, "d"); found {
		if n, err := strconv.Atoi(days); err == nil {
			return now.AddDate(0, 0, n), nil
		}
	}
	if ahead, err := time.ParseDuration(text); err == nil {
		return now.Add(ahead), nil
	}
	at, err := time.Parse(time.RFC3339, text)
	if err != nil {
		return time.Time{}, fmt.Errorf("--expires: %q is neither a time such as 2026-01-31T08:00:00Z nor a duration "+
			"such as 30d or 12h", text)
	}
	return at, nil
}

func (cmd *overridesAddCmd) Run(ctx context.Context, s *installation.Session) error {
	w, err := cmd.wanted(s.Store.Now())
	if err != nil {
		return err
	}
	w.Author = cmp.Or(w.Author, operatorName())
	added, err := s.Store.AddOverrideForAll(ctx, w)
	if err != nil {
		return err
	}
	replaces := ""
	if added.Replaced != "" {
		replaces = fmt.Sprintf("%s replaces %s.\n", added.ID, added.Replaced)
	}
	return s.Say(added, "%s%s: %s %s for all accounts until %s. Hosts apply it within a second.\n", replaces, added.ID,
		added.Action, added.Target, added.ExpiresAt.UTC().Format(time.DateTime))
}

// operatorName returns the name of the user who runs the command.
func operatorName() string {
	if u, err := user.Current(); err == nil && u.Username != "" {
		return u.Username
	}
	return "operator"
}

type overridesListCmd struct {
	Account string `placeholder:"ID" help:"Only this account's overrides."`
	terminal.Output
}

func (cmd *overridesListCmd) Run(ctx context.Context, s *installation.Session) error {
	read := s.Store.AllOverrides
	if cmd.Account != "" {
		read = func(ctx context.Context) ([]override.Listed, error) { return s.Store.Overrides(ctx, cmd.Account) }
	}
	list, err := read(ctx)
	if err = cmp.Or(err, s.Store.RequireAccount(ctx, cmd.Account)); err != nil {
		return err
	}
	header := []string{"ID", "ACCOUNT", "ACTION", "KIND", "TARGET", "AUTHOR", "EXPIRES (UTC)", "STATE", "REASON"}
	return terminal.List(s.Terminal, list, header, func(o override.Listed) []string {
		state := "in force"
		if o.Ignored != "" {
			state = "ignored: " + o.Ignored
		}
		return []string{o.ID, cmp.Or(o.Account, "all"), string(o.Action), string(o.Kind), o.Target, o.Author,
			o.ExpiresAt.UTC().Format(time.DateTime), state, o.Reason}
	})
}

type overridesRemoveCmd struct {
	ID string `arg:"" help:"The override, ovr_..."`
	terminal.Output
}

func (cmd *overridesRemoveCmd) Run(ctx context.Context, s *installation.Session) error {
	if err := s.Store.RemoveAnyOverride(ctx, cmd.ID); err != nil {
		return err
	}
	return s.Say(map[string]any{"id": cmd.ID, "removed": true}, "%s is removed.\n", cmd.ID)
}
