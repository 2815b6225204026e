package console

import (
	"context"
	"errors"
	"maps"
	netmail "net/mail"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/gofiber/fiber/v2"

	"assay/host/access/signin"
	"assay/host/customer/webhook"
	"assay/host/entity"
	"assay/host/web/mail"
	"assay/host/web/refusal"
)

// Mail sends messages.
type Mail interface {
	Send(ctx context.Context, m mail.Message) error
}

// Messages are sent in the background, so that pages do not wait for a mail server, and do not reveal by their duration
// whether an address is known. Messages that wait when the host stops are lost; customers can ask again.
const (
	mailWorkers = 4
	maxMails    = 1000        // that wait
	mailTimeout = time.Minute // of a message, with all attempts

	mailWindow = time.Hour // of the limits of an address

	maxMailsFrom  = 3  // sign-in links that a network can ask for
	maxMailsTo    = 30 // sign-in links that all networks can ask for
	maxMailsKnown = 5  // sign-in links that browsers known to the account can ask for
	maxConfirms   = 5  // links that confirm the address
	maxNotices    = 10 // separate, so that using up the others cannot hide a takeover

	maxWebhookNotices = 2  // a receiver can fail again and again; the next attempt is later
	maxReviewNotices  = 10 // the next attempt is later
	refusedFor        = 24 * time.Hour

	maxCustomerLookups = 60 // of all addresses within a minute, at the payment provider
	maxLookupsFrom     = 6  // of those, by one network
)

// letter writes a message that is to be sent. The message has no text if nothing is to be sent.
type letter func(ctx context.Context) (mail.Message, error)

// Run sends messages until ctx ends.
func (c *Console) Run(ctx context.Context) {
	var workers sync.WaitGroup
	for range mailWorkers {
		workers.Go(func() {
			for {
				select {
				case <-ctx.Done():
					return
				case l := <-c.letters:
					c.send(ctx, l)
				}
			}
		})
	}
	workers.Wait()
}

// post queues a letter to be sent in the background.
func (c *Console) post(l letter) {
	select {
	case c.letters <- l:
	default:
		c.cfg.Logger.Error("a message was dropped, because too many wait to be sent")
	}
}

// send writes and sends a letter.
func (c *Console) send(ctx context.Context, l letter) {
	ctx, cancel := context.WithTimeout(ctx, mailTimeout)
	defer cancel()
	message, err := l(ctx)
	if err == nil && message.Text != "" {
		err = c.cfg.Mail.Send(ctx, message)
	}
	if err != nil {
		c.cfg.Logger.Error("a message was not sent", "subject", message.Subject, "error", err)
	}
}

// allows counts a message of a kind to an address, and reports whether it may be sent. The kind is logged, so it must
// not contain an address.
func (c *Console) allows(ctx context.Context, kind, to string, limit int, window time.Duration) (bool, error) {
	_, ok, err := c.cfg.Store.Take(ctx, kind+strings.ToLower(to), netip.Prefix{}, limit, window)
	if err == nil && !ok {
		c.cfg.Logger.Warn("no more messages of a kind are sent, because many were asked for", "kind", kind)
	}
	return ok, err
}

// allowsLink counts a sign-in link to an address. A stranger's requests do not use up the links of other networks or of
// the owner's browsers.
func (c *Console) allowsLink(ctx context.Context, to, network string, known bool) (bool, error) {
	if known {
		return c.allows(ctx, "link for a known browser to ", to, maxMailsKnown, mailWindow)
	}
	ok, err := c.allows(ctx, "link for a network to ", network+" "+to, maxMailsFrom, mailWindow)
	if ok {
		ok, err = c.allows(ctx, "link to ", to, maxMailsTo, mailWindow)
	}
	return ok, err
}

// text returns the text of a message, which is a block of mail.txt.
func (c *Console) text(name string, data view) string {
	var text strings.Builder
	c.warn("writing a message failed", c.texts.ExecuteTemplate(&text, name, data))
	return text.String()
}

// parseAddress returns the e-mail address in a field, and a sentence about the problem if it is invalid.
func parseAddress(text string) (address, problem string) {
	address = strings.TrimSpace(text)
	var invalid *entity.InvalidError
	if _, err := entity.Parse(entity.Email, address, ""); errors.As(err, &invalid) {
		return address, "The address " + invalid.Reason + "."
	}
	if parsed, err := netmail.ParseAddress(address); err != nil || parsed.Address != address {
		return address, "Messages cannot be sent to this address."
	}
	return address, ""
}

// readAddress returns the e-mail address in a form. If it is invalid, it sets the status and returns the problem.
func (c *Console) readAddress(ctx *fiber.Ctx) (address, problem string, err error) {
	if address, problem = parseAddress(field(ctx, "email")); problem != "" {
		ctx.Status(fiber.StatusBadRequest)
	}
	return address, problem, c.takeSignIn(ctx)
}

// mailLink sends a sign-in link to an address, if it belongs to the owner of an account. If not, the page is the same.
func (c *Console) mailLink(ctx *fiber.Ctx) error {
	address, problem, err := c.readAddress(ctx)
	if err != nil {
		return err
	}
	if problem != "" {
		return c.render(ctx, "signin", nil, view{"Title": "Sign in",
			"Errors": map[string]string{"email": problem}, "Address": address})
	}
	network, known := c.origin(ctx).Network, c.known(ctx)
	c.post(func(ctx context.Context) (m mail.Message, err error) {
		subject, text, path, newLink := "Sign in to Assay", "signin", LinkPath, c.cfg.Store.NewLink
		receivers, err := c.cfg.Store.OwnersOf(ctx, address)
		owned := slices.Concat(slices.Collect(maps.Values(receivers))...)
		isKnown := slices.ContainsFunc(owned, func(account string) bool { return slices.Contains(known, account) })
		if err == nil && len(receivers) == 0 {
			receivers, err = c.paidBy(ctx, address, network)
			subject, text, path = "Recover your Assay account", "recover", recoverPath
			newLink = func(ctx context.Context, account string) (string, error) {
				return c.cfg.Store.NewRecoveryLink(ctx, account, address)
			}
		}
		if err != nil || len(receivers) == 0 {
			return m, err
		}
		if ok, err := c.allowsLink(ctx, address, network, isKnown); err != nil || !ok {
			return m, err
		}
		for to, accounts := range receivers { // usually one: spellings of an address differ in case
			links := map[string]string{}
			for _, account := range accounts {
				token, err := newLink(ctx, account)
				if err != nil {
					return m, err
				}
				links[account] = c.cfg.URL + path + token
			}
			c.post(func(context.Context) (mail.Message, error) {
				return mail.Message{To: to, Subject: subject, Text: c.text(text, view{"Links": links})}, nil
			})
		}
		return m, nil
	})
	return c.render(ctx, "mailed", nil, view{"Title": "Check your inbox", "Address": address})
}

// paidBy returns the accounts that a customer with an e-mail address has paid for, by this address.
func (c *Console) paidBy(ctx context.Context, address, network string) (map[string][]string, error) {
	if c.cfg.Customers == nil {
		return nil, nil
	}
	ok, err := c.allows(ctx, "look-ups of customers by ", network, maxLookupsFrom, time.Minute)
	if ok {
		ok, err = c.allows(ctx, "look-ups of customers", "", maxCustomerLookups, time.Minute)
	}
	if err != nil || !ok {
		return nil, err
	}
	customers, err := c.cfg.Customers.CustomersOf(ctx, address)
	if err != nil {
		return nil, err
	}
	accounts, err := c.cfg.Store.AccountsOfCustomers(ctx, customers)
	if err != nil || len(accounts) == 0 {
		return nil, err
	}
	return map[string][]string{address: accounts}, nil
}

// setAddress sends a link that confirms an e-mail address. Nothing changes until it is used.
func (c *Console) setAddress(ctx *fiber.Ctx, s *session) error {
	address, problem, err := c.readAddress(ctx)
	if err != nil {
		return err
	}
	if problem != "" {
		return c.showAccount(ctx, s, view{"Errors": map[string]string{"email": problem}, "Entered": address})
	}
	c.post(func(ctx context.Context) (mail.Message, error) {
		m := mail.Message{To: address, Subject: "Confirm your e-mail address"}
		if ok, err := c.allows(ctx, "confirmation to ", address, maxConfirms, mailWindow); err != nil || !ok {
			return m, err
		}
		token, err := c.cfg.Store.NewAddressLink(ctx, s.Account, address)
		m.Text = c.text("confirm", view{"Account": s.Account, "URL": c.cfg.URL + confirmPath + token})
		return m, err
	})
	return c.note(ctx, s, accountPath, "A link is on its way. Open it in this browser to confirm the address.")
}

// confirmForm is the page of a link that confirms an address.
func (c *Console) confirmForm(ctx *fiber.Ctx, s *session) error {
	return c.render(ctx, "link", s, view{"Title": "Confirm your e-mail address", "Token": ctx.Params("token"),
		"Confirm": true})
}

func (c *Console) confirmAddress(ctx *fiber.Ctx, s *session) error {
	former, err := c.cfg.Store.ConfirmAddress(work(ctx), s.Account, field(ctx, "token"))
	if errors.Is(err, signin.ErrUnknown) {
		return refusal.Page(fiber.StatusGone, "This link was used, has expired, or belongs to another account.")
	}
	if err != nil {
		return err
	}
	c.tellOwner(s.Account, former, "Its e-mail address was changed.")
	return c.note(ctx, s, accountPath, "Your e-mail address is confirmed. You can now sign in with it.")
}

// removeAddress deletes the owner's address or the recovery address.
func (c *Console) removeAddress(ctx *fiber.Ctx, s *session) error {
	former, err := c.cfg.Store.RemoveAddress(work(ctx), s.Account, field(ctx, "recovery") != "")
	if err != nil {
		return err
	}
	if former != "" {
		c.tellOwner(s.Account, former, "Its e-mail address was removed.")
	}
	return c.note(ctx, s, accountPath, "Your e-mail address is removed. You can no longer sign in with it.")
}

// recoverForm is the page of a link that makes an address the recovery address.
func (c *Console) recoverForm(ctx *fiber.Ctx) error {
	return c.render(ctx, "link", nil, view{"Title": "Recover your account", "Token": ctx.Params("token"),
		"Recover": true})
}

// recoverAccount makes the address of a link the recovery address, and tells the owner.
func (c *Console) recoverAccount(ctx *fiber.Ctx) error {
	if err := c.takeSignIn(ctx); err != nil {
		return err
	}
	account, err := c.cfg.Store.ConfirmRecovery(work(ctx), field(ctx, "token"))
	if errors.Is(err, signin.ErrUnknown) {
		return errUsedLink
	}
	var owner string
	if err == nil {
		owner, err = c.cfg.Store.OwnerAddress(work(ctx), account)
	}
	if err != nil {
		return err
	}
	c.tellOwner(account, owner, "Another address was made its recovery address. It signs in 72 hours from now.")
	return c.render(ctx, "link", nil, view{"Title": "Your address is verified", "Recovered": true})
}

// tellOwner sends a notice of a change to an address, or, if that is "", to the one that the account is paid with.
func (c *Console) tellOwner(account, address, what string) {
	if c.cfg.Mail == nil {
		return
	}
	c.post(func(ctx context.Context) (mail.Message, error) {
		m := mail.Message{Subject: "Your Assay account was changed"}
		to, err := c.receiver(ctx, account, address)
		if to == "" {
			return m, err
		}
		ok, err := c.allows(ctx, "notice to ", to, maxNotices, mailWindow)
		if ok {
			m.To, m.Text = to, c.text("notice", view{"Account": account, "What": what, "URL": c.cfg.URL + accountPath})
		}
		return m, err
	})
}

// receiver returns an address or, if that is "", the one that an account is paid with, if any.
func (c *Console) receiver(ctx context.Context, account, address string) (string, error) {
	if address != "" || c.cfg.Customers == nil {
		return address, nil
	}
	customers, err := c.cfg.Store.CustomersOf(ctx, account)
	if err != nil || len(customers) == 0 {
		return "", err
	}
	return c.cfg.Customers.CustomerAddress(ctx, customers[0])
}

// TellOwners tells owners by mail that their webhook was disabled, or that it answers again and how many events failed
// meanwhile, and that a review was settled.
func (c *Console) TellOwners(ctx context.Context) error {
	if c.cfg.Mail == nil {
		return nil
	}
	notices, err := c.cfg.Store.Notices(ctx)
	for _, n := range notices {
		m, since, failed := c.webhookNotice(ctx, n)
		if failed == nil {
			failed = c.tell(ctx, n.AccountID, since, m, "webhook notice to ", maxWebhookNotices,
				func() error { return c.cfg.Store.EndNotice(ctx, n) })
		}
		err = errors.Join(err, failed)
	}
	settled, failed := c.cfg.Store.ReviewNotices(ctx)
	for _, r := range settled {
		failed = errors.Join(failed, c.tell(ctx, r.AccountID, r.SettledAt, mail.Message{Subject: "A review is settled",
			Text: c.text("review", view{"Ref": r.Ref, "URL": c.cfg.URL + "/dashboard/checks/" + r.Ref})},
			"review notice to ", maxReviewNotices, func() error { return c.cfg.Store.EndReviewNotice(ctx, r.Ref) }))
	}
	return errors.Join(err, failed)
}

// webhookNotice writes a notice about a webhook. The message has no text if the notice is out of date.
func (c *Console) webhookNotice(ctx context.Context, n webhook.Notice) (m mail.Message, since time.Time, err error) {
	endpoints, err := c.cfg.Store.Endpoints(ctx, n.AccountID)
	if err != nil || len(endpoints) == 0 || n.Disabled != (endpoints[0].DisabledAt != nil) ||
		!n.Disabled && endpoints[0].Resendable == 0 {
		return m, since, err
	}
	m.Subject, since = "Your webhook answers again", c.cfg.Now() // as long as events can be resent
	if n.Disabled {
		m.Subject, since = "Your webhook was disabled", *endpoints[0].DisabledAt
	}
	m.Text = c.text("webhook", view{"Notice": n, "Endpoint": endpoints[0], "URL": c.cfg.URL + webhooksPath})
	return m, since, nil
}

// tell sends a message to the owner of an account, unless it has no text or there is no address. It calls end once the
// mail server has accepted the message, because a message sent twice is better than none, or if the server still
// refuses it refusedFor after since.
func (c *Console) tell(ctx context.Context, account string, since time.Time, m mail.Message, kind string, limit int,
	end func() error) error {
	sending, cancel := context.WithTimeout(ctx, mailTimeout)
	defer cancel()
	address, err := c.cfg.Store.OwnerAddress(sending, account)
	if err == nil {
		m.To, err = c.receiver(sending, account, address)
	}
	if err != nil {
		return err
	}
	if m.To != "" && m.Text != "" {
		_, ok, err := c.cfg.Store.Take(sending, kind+strings.ToLower(m.To), netip.Prefix{}, limit, mailWindow)
		if ok {
			err = c.cfg.Mail.Send(sending, m)
		}
		if !ok || err != nil && !(errors.Is(err, mail.ErrUndeliverable) && c.cfg.Now().Sub(since) > refusedFor) {
			return err
		}
		c.warn("a message was not sent, and will not be", err)
	}
	return end()
}
