// Package mailtest is an SMTP server on loopback, for tests.
package mailtest

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"mime/quotedprintable"
	"net"
	"net/mail"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/emersion/go-sasl"
	"github.com/emersion/go-smtp"

	"assay/host/web/certificate/certificatetest"
)

// Security says how a server encrypts.
type Security string

// The ways to encrypt.
const (
	Plain    Security = ""
	StartTLS Security = "starttls"
	TLS      Security = "tls" // from the first byte
)

// Password is accepted from every user, where connections are encrypted.
const Password = "p@ss:word"

// Server is an SMTP server.
type Server struct {
	Addr   string
	Client *tls.Config // trusts the server

	received chan Message

	mu       sync.Mutex
	refusals []error
	attempts int
}

// Message is a message that a server received.
type Message struct {
	User, From, To string // of the transaction
	Header         mail.Header
	Text           string
}

// Start starts a server, which stops with the test.
func Start(t testing.TB, security Security) *Server {
	t.Helper()
	s := &Server{received: make(chan Message, 100)}
	own := s.certify(t)
	smtpServer := smtp.NewServer(smtp.BackendFunc(func(*smtp.Conn) (smtp.Session, error) {
		return &session{server: s}, nil
	}))
	smtpServer.Domain = "mail.example"
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s.Addr = listener.Addr().String()
	switch security {
	case StartTLS:
		smtpServer.TLSConfig = own
	case TLS:
		listener = tls.NewListener(listener, own)
	}
	served := make(chan error, 1)
	go func() { served <- smtpServer.Serve(listener) }()
	t.Cleanup(func() {
		if err := errors.Join(smtpServer.Close(), <-served); err != nil && !errors.Is(err, smtp.ErrServerClosed) {
			t.Error(err)
		}
	})
	return s
}

// certify creates the server's certificate, which its clients trust, and returns the server's configuration.
func (s *Server) certify(t testing.TB) *tls.Config {
	t.Helper()
	cert, key := certificatetest.Pair(t, 1, time.Time{}, time.Now().Add(time.Hour))
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(cert)
	s.Client = &tls.Config{RootCAs: pool, ServerName: "127.0.0.1"}
	pair, err := tls.X509KeyPair(cert, key)
	if err != nil {
		t.Fatal(err)
	}
	return &tls.Config{Certificates: []tls.Certificate{pair}}
}

// Next waits for the next message and returns it.
func (s *Server) Next(t testing.TB) Message {
	t.Helper()
	select {
	case m := <-s.received:
		return m
	case <-time.After(2 * time.Minute):
		t.Fatal("no message came")
		return Message{}
	}
}

// Received returns how many messages wait for Next.
func (s *Server) Received() int { return len(s.received) }

// Refuse makes the server refuse the next receivers with these errors.
func (s *Server) Refuse(errs ...error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.refusals = errs
}

// Attempts returns how many receivers were named.
func (s *Server) Attempts() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.attempts
}

func (s *Server) accept() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.attempts++
	if len(s.refusals) == 0 {
		return nil
	}
	err := s.refusals[0]
	s.refusals = s.refusals[1:]
	return err
}

// session is a connection to a server.
type session struct {
	server *Server
	m      Message
}

// AuthMechanisms implements smtp.AuthSession.
func (*session) AuthMechanisms() []string { return []string{sasl.Plain} }

// Auth implements smtp.AuthSession.
func (s *session) Auth(string) (sasl.Server, error) {
	return sasl.NewPlainServer(func(_, user, password string) error {
		if password != Password {
			return smtp.ErrAuthFailed
		}
		s.m.User = user
		return nil
	}), nil
}

// Mail implements smtp.Session.
func (s *session) Mail(from string, _ *smtp.MailOptions) error { s.m.From = from; return nil }

// Rcpt implements smtp.Session.
func (s *session) Rcpt(to string, _ *smtp.RcptOptions) error { s.m.To = to; return s.server.accept() }

// Data implements smtp.Session.
func (s *session) Data(r io.Reader) error {
	message, err := mail.ReadMessage(r)
	if err != nil {
		return err
	}
	body := message.Body
	if message.Header.Get("Content-Transfer-Encoding") == "quoted-printable" {
		body = quotedprintable.NewReader(body)
	}
	text, err := io.ReadAll(body)
	m := s.m
	m.Header, m.Text = message.Header, strings.ReplaceAll(string(text), "\r\n", "\n")
	s.server.received <- m
	return err
}

// Reset implements smtp.Session.
func (*session) Reset() {}

// Logout implements smtp.Session.
func (*session) Logout() error { return nil }
