// Package mail sends short texts through an SMTP server, with go-mail. Its errors never contain the receiver's address.
package mail

import (
	"context"
	"crypto/rand"
	"crypto/tls"
	"errors"
	"fmt"
	"net/mail"
	"net/netip"
	"net/url"
	"strconv"
	"strings"
	"time"

	gomail "github.com/wneessen/go-mail"
)

// Message is a plain text to one address.
type Message struct{ To, Subject, Text string }

// ErrUndeliverable means that a message was refused permanently, so sending it again will hardly help.
var ErrUndeliverable = errors.New("the message cannot be delivered")

// Sender sends messages through one SMTP server. It is safe for concurrent use.
type Sender struct {
	host    string
	from    *mail.Address
	options []gomail.Option
	pauses  []time.Duration // between attempts
	tls     *tls.Config     // tests have a certificate authority of their own
}

// attemptTimeout bounds one attempt to send a message.
const attemptTimeout = 20 * time.Second

// New returns a sender for a URL such as smtps://user:password@host:465?from=assay%40example.com. smtps encrypts from
// the first byte, smtp with STARTTLS, without which nothing is sent. To a loopback address, smtp does not encrypt. The
// error does not repeat the URL.
func New(text string) (*Sender, error) {
	u, err := url.Parse(text)
	if err != nil || (u.Scheme != "smtp" && u.Scheme != "smtps") || u.Hostname() == "" ||
		strings.Trim(u.Path, "/") != "" {
		return nil, errors.New("it is not of the form smtps://user:password@host:465?from=assay%40example.com")
	}
	query := u.Query()
	from, err := mail.ParseAddress(query.Get("from"))
	if err != nil || len(query) != 1 || len(query["from"]) != 1 {
		return nil, errors.New("it must end with the sender's address, such as ?from=assay%40example.com")
	}
	s := &Sender{host: u.Hostname(), from: from, pauses: []time.Duration{2 * time.Second, 15 * time.Second}}
	// One connection sends one message, so it needs no RSET.
	s.options = []gomail.Option{gomail.WithTimeout(attemptTimeout), gomail.WithoutRset(), gomail.WithoutNoop()}
	port := 587
	switch {
	case u.Scheme == "smtps":
		port = 465
		s.options = append(s.options, gomail.WithSSL())
	case isLoopback(u.Hostname()):
		s.options = append(s.options, gomail.WithTLSPolicy(gomail.NoTLS))
	default:
		s.options = append(s.options, gomail.WithTLSPolicy(gomail.TLSMandatory))
	}
	if u.Port() != "" {
		if port, err = strconv.Atoi(u.Port()); err != nil || port < 1 || port > 65535 {
			return nil, errors.New("its port is not a number from 1 to 65535")
		}
	}
	s.options = append(s.options, gomail.WithPort(port))
	if user := u.User.Username(); user != "" {
		password, _ := u.User.Password()
		s.options = append(s.options, gomail.WithSMTPAuth(gomail.SMTPAuthAutoDiscover), gomail.WithUsername(user),
			gomail.WithPassword(password))
	}
	return s, nil
}

func isLoopback(host string) bool {
	addr, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && addr.IsLoopback()
}

// Send sends a message. If the server cannot be reached, or asks to try again later, Send makes up to three attempts
// within a minute.
func (s *Sender) Send(ctx context.Context, m Message) error {
	for attempt := 0; ; attempt++ {
		again, err := s.try(ctx, m)
		if err == nil || !again || attempt == len(s.pauses) {
			return err
		}
		select {
		case <-time.After(s.pauses[attempt]):
		case <-ctx.Done():
			return err
		}
	}
}

// try makes one attempt. again reports whether another one may succeed.
func (s *Sender) try(ctx context.Context, m Message) (again bool, err error) {
	message, err := s.compose(m)
	if err != nil {
		return false, err
	}
	options := s.options
	if s.tls != nil {
		options = append(options[:len(options):len(options)], gomail.WithTLSConfig(s.tls))
	}
	client, err := gomail.NewClient(s.host, options...)
	if err != nil {
		return false, fmt.Errorf("sending mail: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, attemptTimeout)
	defer cancel()
	err = client.DialAndSendWithContext(ctx, message)
	if refused, ok := errors.AsType[*gomail.SendError](err); ok {
		cause := errors.New("the server refused the message temporarily")
		if refused.ErrorCode() >= 500 {
			cause = ErrUndeliverable
		}
		// The error's own text names the receiver.
		return refused.IsTemp(), fmt.Errorf("sending mail: %w: %s, status %d", cause, refused.Reason,
			refused.ErrorCode())
	}
	if err != nil {
		return true, fmt.Errorf("sending mail: %w", err)
	}
	return false, nil
}

func (s *Sender) compose(m Message) (*gomail.Msg, error) {
	message := gomail.NewMsg(gomail.WithNoDefaultUserAgent())
	if message.FromMailAddress(s.from); message.To(m.To) != nil {
		return nil, fmt.Errorf("sending mail: %w: the receiver's address is malformed", ErrUndeliverable)
	}
	_, domain, _ := strings.Cut(s.from.Address, "@")
	message.SetMessageIDWithValue(rand.Text() + "@" + domain) // the default names this machine
	message.SetDate()
	message.SetGenHeader("Auto-Submitted", "auto-generated") // RFC 3834; prevents out-of-office replies
	message.Subject(m.Subject)
	message.SetBodyString(gomail.TypeTextPlain, m.Text)
	return message, nil
}
