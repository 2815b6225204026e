package console

import (
	"context"
	"errors"
	"fmt"
	netmail "net/mail"
	"net/netip"
	"strings"
	"sync"
	"time"

	"github.com/gofiber/fiber/v2"

	"assay/host/access/signin"
	"assay/host/entity"
	"assay/host/web/mail"
)

// Mail sends messages.
type Mail interface {
	Send(ctx context.Context, m mail.Message) error
}

// Messages are sent in the background, so that pages neither wait for a mail server nor tell, by how long they take,
// whether an address is known. Those that wait when the host stops are lost; customers ask again.
const (
	mailWorkers = 4
	maxMails    = 1000        // that wait
	mailTimeout = time.Minute // of a message, with all attempts

	maxMailsTo = 5 // to one address within mailWindow
	mailWindow = time.Hour
)

// The texts of messages. Arguments are the account and a link.
const (
	confirmText = `Is this the address of the owner of the Assay account %s?

Open the link in a browser that is signed in to the account, and press the button:
%s

The link works once, for 15 minutes. If you do not know the account, ignore this message.
`
	formerText = `This is no longer the address of the owner of the Assay account %s, and no longer signs in.

If it was not you, sign in with your sign-in code, replace the code and end all other sessions:
%s

If you cannot sign in, tell the operator of the service at once.
`
)

// letter is a message to be written and sent. write returns no text if nothing is to be sent.
type letter struct {
	to, subject string
	write       func(ctx context.Context) (text string, err error)
}

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

// post has a letter sent in the background.
func (c *Console) post(l letter) {
	select {
	case c.letters <- l:
	default:
		c.cfg.Logger.Error("a message was dropped, because too many wait to be sent", "subject", l.subject)
	}
}

// send writes and sends a letter, unless its address got too many.
func (c *Console) send(ctx context.Context, l letter) {
	ctx, cancel := context.WithTimeout(ctx, mailTimeout)
	defer cancel()
	_, ok, err := c.cfg.Store.Take(ctx, "mail to "+strings.ToLower(l.to), netip.Prefix{}, maxMailsTo, mailWindow)
	if err == nil && !ok {
		c.cfg.Logger.Warn("an address got no more messages, because many were asked for", "subject", l.subject)
		return
	}
	var text string
	if err == nil {
		text, err = l.write(ctx)
	}
	if err == nil && text != "" {
		err = c.cfg.Mail.Send(ctx, mail.Message{To: l.to, Subject: l.subject, Text: text})
	}
	if err != nil {
		c.cfg.Logger.Error("a message was not sent", "subject", l.subject, "error", err)
	}
}

// parseAddress returns the e-mail address in a field, or why it is none, as a sentence.
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

// readAddress returns the e-mail address in a form, or why no message is sent to it, of which it sets the status.
func (c *Console) readAddress(ctx *fiber.Ctx) (address, problem string, err error) {
	if address, problem = parseAddress(field(ctx, "email")); problem != "" {
		ctx.Status(fiber.StatusBadRequest)
	}
	ok, err := c.takeSignIn(ctx)
	if err == nil && !ok {
		ctx.Status(fiber.StatusTooManyRequests)
		problem = tooManySignIns
	}
	return address, problem, err
}

// mailLink sends a sign-in link to an address, if it belongs to the owner of an account. The page is the same if not.
func (c *Console) mailLink(ctx *fiber.Ctx) error {
	address, problem, err := c.readAddress(ctx)
	if err != nil {
		return err
	}
	if problem != "" {
		return c.render(ctx, "signin", nil, view{"Title": "Sign in",
			"Errors": map[string]string{"email": problem}, "Address": address})
	}
	c.post(letter{address, "Sign in to Assay", func(ctx context.Context) (string, error) {
		links, err := c.cfg.Store.LinksTo(ctx, address)
		if err != nil || len(links) == 0 {
			return "", err
		}
		var b strings.Builder
		b.WriteString("Someone asked to sign in to Assay with this address. Open the link and press the button:\n")
		for _, l := range links {
			fmt.Fprintf(&b, "\nAccount %s:\n%s\n", l.Account, c.cfg.URL+LinkPath+l.Token)
		}
		b.WriteString("\nA link works once, for 15 minutes. If it was not you, ignore this message.\n")
		return b.String(), nil
	}})
	return c.render(ctx, "mailed", nil, view{"Title": "Check your inbox", "Address": address})
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
	c.post(letter{address, "Confirm your e-mail address", func(ctx context.Context) (string, error) {
		token, err := c.cfg.Store.NewAddressLink(ctx, s.Account, address)
		return fmt.Sprintf(confirmText, s.Account, c.cfg.URL+confirmPath+token), err
	}})
	return c.note(ctx, s, accountPath, "mailed")
}

// confirmForm is the page of a link that confirms an address.
func (c *Console) confirmForm(ctx *fiber.Ctx, s *session) error {
	return c.render(ctx, "link", s, view{"Title": "Confirm your e-mail address", "Token": ctx.Params("token"),
		"Confirm": true})
}

func (c *Console) confirmAddress(ctx *fiber.Ctx, s *session) error {
	work, cancel := pageContext()
	defer cancel()
	former, err := c.cfg.Store.ConfirmAddress(work, s.Account, field(ctx, "token"))
	if errors.Is(err, signin.ErrUnknown) {
		return &pageError{fiber.StatusGone, "This link was used, has expired, or belongs to another account."}
	}
	if err != nil {
		return err
	}
	c.tellFormer(former, s.Account)
	return c.note(ctx, s, accountPath, "confirmed")
}

func (c *Console) removeAddress(ctx *fiber.Ctx, s *session) error {
	work, cancel := pageContext()
	defer cancel()
	former, err := c.cfg.Store.RemoveAddress(work, s.Account)
	if err != nil {
		return err
	}
	c.tellFormer(former, s.Account)
	return c.note(ctx, s, accountPath, "forgotten")
}

// tellFormer tells an address that it no longer belongs to an account's owner. It may be "".
func (c *Console) tellFormer(former, account string) {
	if former == "" {
		return
	}
	c.post(letter{former, "Your e-mail address was removed from an account", func(context.Context) (string, error) {
		return fmt.Sprintf(formerText, account, c.cfg.URL+accountPath), nil
	}})
}
