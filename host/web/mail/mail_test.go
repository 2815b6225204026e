package mail

import (
	"context"
	"errors"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/emersion/go-smtp"
	gomail "github.com/wneessen/go-mail"

	"assay/host/web/mail/mailtest"
	"assay/registry/expect"
)

// connect returns a sender for a server.
func connect(t *testing.T, s *mailtest.Server, url string) *Sender {
	t.Helper()
	sender := expect.Value(New(strings.ReplaceAll(url, "ADDR", s.Addr)))(t)
	sender.pauses, sender.tls = []time.Duration{time.Millisecond, time.Millisecond}, s.Client
	return sender
}

// reach makes a sender connect to an address instead of its server's.
func (s *Sender) reach(addr string) *Sender {
	s.options = append(s.options, gomail.WithDialContextFunc(func(ctx context.Context, network, _ string) (net.Conn,
		error) {
		return (&net.Dialer{}).DialContext(ctx, network, addr)
	}))
	return s
}

func TestSend(t *testing.T) {
	t.Parallel()
	type testCase struct {
		security  mailtest.Security
		url, user string
	}
	expect.Each(t, map[string]testCase{
		"plain, to this machine":     {mailtest.Plain, "smtp://ADDR?from=assay@example.com", ""},
		"encrypted":                  {mailtest.TLS, "smtps://ADDR?from=Assay+%3Cassay@example.com%3E", ""},
		"encrypted, with a password": {mailtest.TLS, "smtps://jo:p%40ss%3Aword@ADDR?from=assay@example.com", "jo"},
	}, func(t *testing.T, test testCase) {
		s := mailtest.Start(t, test.security)
		text := "Open this link:\n\n  https://assay.example/signin/link/" + strings.Repeat("x", 43) + "\n\nÖl.\n"
		sent := Message{To: "jane+x@example.org", Subject: "Sign in", Text: text}
		expect.NoError(t, connect(t, s, test.url).Send(t.Context(), sent))
		m := s.Next(t)
		expect.That(t, m.User == test.user && m.From == "assay@example.com" && m.To == sent.To && m.Text == text,
			"the server got %+v", m)
		h := m.Header
		expect.That(t, h.Get("Subject") == "Sign in" && h.Get("Auto-Submitted") == "auto-generated" &&
			strings.HasSuffix(h.Get("Message-Id"), "@example.com>") && h.Get("X-Mailer")+h.Get("User-Agent") == "",
			"the header is %v", h)
	})
}

// TestNoEncryptionNoMail checks that a server elsewhere that offers no encryption gets nothing.
func TestNoEncryptionNoMail(t *testing.T) {
	t.Parallel()
	const url = "smtp://jo:p%40ss%3Aword@mail.example?from=assay@example.com"
	s := mailtest.Start(t, mailtest.Plain)
	err := connect(t, s, url).reach(s.Addr).Send(t.Context(), Message{To: "jane@example.org"})
	expect.That(t, err != nil && s.Attempts() == 0, "Send = %v after %d attempts", err, s.Attempts())
	s = mailtest.Start(t, mailtest.StartTLS)
	err = connect(t, s, url).reach(s.Addr).Send(t.Context(), Message{To: "jane@example.org"})
	expect.That(t, err == nil && s.Next(t).User == "jo", "with STARTTLS: Send = %v", err)
}

func TestRetries(t *testing.T) {
	t.Parallel()
	later := &smtp.SMTPError{Code: 451, Message: "try later, jane@example.org"}
	never := &smtp.SMTPError{Code: 550, Message: "jane@example.org is unknown"}
	type testCase struct {
		refusals       []error
		attempts, sent int
	}
	expect.Each(t, map[string]testCase{
		"at once":    {nil, 1, 1},
		"greylisted": {[]error{later, later}, 3, 1},
		"too often":  {[]error{later, later, later}, 3, 0},
		"unknown":    {[]error{never}, 1, 0},
	}, func(t *testing.T, test testCase) {
		s := mailtest.Start(t, mailtest.Plain)
		s.Refuse(test.refusals...)
		err := connect(t, s, "smtp://ADDR?from=assay@example.com").Send(t.Context(), Message{To: "jane@example.org"})
		expect.That(t, (err == nil) == (test.sent == 1) && s.Attempts() == test.attempts && s.Received() == test.sent,
			"Send = %v after %d attempts; the server got %d messages", err, s.Attempts(), s.Received())
		expect.That(t, err == nil || !strings.Contains(err.Error(), "jane"), "the error names the receiver: %v", err)
		expect.Equal(t, "undeliverable", errors.Is(err, ErrUndeliverable), slices.Contains(test.refusals, error(never)))
	})
}

func TestSendFails(t *testing.T) {
	t.Parallel()
	sender := expect.Value(New("smtp://127.0.0.1:1?from=assay@example.com"))(t)
	sender.pauses = []time.Duration{time.Hour}
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	expect.Failure(t, sender.Send(ctx, Message{To: "jane@example.org"}), "Send to nowhere succeeds")
	for _, to := range []string{"", "jane", "jane@example.org\r\nBcc: x@example.org", "a@example.org, b@example.org"} {
		expect.ErrorText(t, "Send to "+to, sender.Send(t.Context(), Message{To: to}), "malformed")
	}
}

func TestNew(t *testing.T) {
	t.Parallel()
	for _, text := range []string{
		"", "mail.example", "http://mail.example?from=a@example.com", "smtp://?from=a@example.com",
		"smtp://user:hunter2@mail.example", "smtp://mail.example?from=nobody",
		"smtp://mail.example?from=a@example.com&x=1", "smtp://mail.example/path?from=a@example.com",
		"smtp://mail.example:0?from=a@example.com", "smtp://user:hunter2@mail.example:99999?from=a@example.com",
		"smtp://user:hunter2%zz@mail.example",
	} {
		_, err := New(text)
		expect.That(t, err != nil && !strings.Contains(err.Error(), "hunter2"), "New(%q) = %v", text, err)
	}
}
