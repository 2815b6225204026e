package console

import (
	"context"
	"log/slog"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"assay/host/access/signin"
	"assay/host/store/storetest"
	"assay/host/web/mail"
	"assay/host/web/mail/mailtest"
	"assay/registry/expect"
)

// mailSite is a console that sends mail to a server on loopback.
type mailSite struct {
	*site
	server *mailtest.Server
	log    *lockedText
}

// lockedText collects a log.
type lockedText struct {
	mu   sync.Mutex
	text strings.Builder
}

func (l *lockedText) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *lockedText) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// publicURL begins the links in messages, whatever address a browser uses.
const publicURL = "http://assay.example"

func serveMail(t *testing.T) *mailSite {
	t.Helper()
	m := &mailSite{server: mailtest.Start(t, mailtest.Plain), log: &lockedText{}}
	sender := expect.Value(mail.New("smtp://" + m.server.Addr + "?from=assay@example.com"))(t)
	m.site = serve(t, func(c *Config) {
		c.Mail, c.URL, c.Logger = sender, publicURL, slog.New(slog.NewTextHandler(m.log, nil))
	})
	ctx, stop := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { m.Run(ctx) })
	t.Cleanup(func() { stop(); running.Wait() })
	return m
}

var linkPattern = regexp.MustCompile(regexp.QuoteMeta(publicURL) + `(/\S+)`)

// paths returns the paths of the links in the next message, which must be to an address.
func (m *mailSite) paths(t *testing.T, to, subject string) (paths []string) {
	t.Helper()
	message := m.server.Next(t)
	expect.Must(t, message.To == to && message.Header.Get("Subject") == subject, "the message is to %s, %q:\n%s",
		message.To, message.Header.Get("Subject"), message.Text)
	for _, found := range linkPattern.FindAllStringSubmatch(message.Text, -1) {
		paths = append(paths, found[1])
	}
	return paths
}

const (
	confirmSubject = "Confirm your e-mail address"
	signInSubject  = "Sign in to Assay"
	formerSubject  = "Your e-mail address was removed from an account"
)

// own makes an address that of a customer's account.
func (m *mailSite) own(t *testing.T, v *visitor, address string) {
	t.Helper()
	v.get(accountPath)
	v.press("Send a link", "email", " "+address+" ").is(200, "A link is on its way.")
	v.get(m.paths(t, address, confirmSubject)[0])
	v.press("Confirm the address").is(200, "Your e-mail address is confirmed.", "Your address is "+address)
}

func TestSignInByMail(t *testing.T) {
	t.Parallel()
	m := serveMail(t)
	owner, _ := m.customer(t, "starter")
	m.own(t, owner, "Jane@Example.org")

	v := m.visit(t)
	v.get("/signin")
	v.press("Send me a link", "email", "jane@example.ORG")
	v.is(200, "If jane@example.ORG is the confirmed address of an account's owner")
	answer := v.at.body
	link := m.paths(t, "jane@example.ORG", signInSubject)[0]
	v.use(link).is(200, "Your address is Jane@Example.org")
	w := m.visit(t)
	w.use(link).is(410, "This link was used")

	// An unknown address gets the same answer, and no message. Neither does a link that confirms an address sign in.
	w.get("/signin")
	w.press("Send me a link", "email", "jane@example.NET")
	same := strings.ReplaceAll(w.at.body, ".NET", ".ORG")
	expect.That(t, same == answer, "the answer to an unknown address differs:\n%s\n%s", same, answer)
	owner.get(accountPath)
	owner.press("Send a link", "email", "john@example.org")
	confirm := m.paths(t, "john@example.org", confirmSubject)[0]
	w.get("/signin")
	w.post("/signin/link", "token", confirm[strings.LastIndex(confirm, "/")+1:]).is(410, "This link was used")

	// Only the account's own sessions confirm an address, and opening the page changes nothing.
	stranger, _ := m.customer(t, "starter")
	stranger.get(confirm)
	stranger.press("Confirm the address").is(410, "belongs to another account")
	owner.get(confirm)
	owner.get(accountPath).is(200, "Your address is Jane@Example.org")

	m.pass(signInsWindow)
	// The address before is told, and no longer signs in, even by a link that it has.
	w.get("/signin")
	w.press("Send me a link", "email", "jane@example.org")
	late := m.paths(t, "jane@example.org", signInSubject)[0]
	owner.get(confirm)
	owner.press("Confirm the address").is(200, "Your address is john@example.org")
	m.paths(t, "Jane@Example.org", formerSubject)
	w.use(late).is(410, "This link was used")
	owner.press("Remove the address").is(200, "Your e-mail address is removed.")
	m.paths(t, "john@example.org", formerSubject)
	w.get("/signin")
	w.press("Send me a link", "email", "john@example.org")

	expect.Equal(t, "messages more sent", m.server.Received(), 0)
	for _, table := range []string{"owner_addresses", "sign_in_links", "public_uses"} {
		if rows := m.rows(t, table); strings.Contains(rows, "example") || strings.Contains(rows, "jane") {
			t.Errorf("the table %s contains an address: %s", table, rows)
		}
	}
	log := m.log.String()
	expect.That(t, !strings.Contains(log, "@"), "the log contains an address:\n%s", log)
}

// rows returns the rows of a table as text.
func (m *mailSite) rows(t *testing.T, table string) string {
	t.Helper()
	return storetest.Value[string](t, storetest.Session(t, m.database),
		"SELECT coalesce(string_agg(r::text, ' '), '') FROM "+table+" AS r")
}

// TestMailToSeveralAccounts checks that an owner of several accounts gets a link for each.
func TestMailToSeveralAccounts(t *testing.T) {
	t.Parallel()
	m := serveMail(t)
	var ids []string
	for range 2 {
		v, _ := m.customer(t, "starter")
		m.own(t, v, "jane@example.org")
		ids = append(ids, v.at.text("account"))
	}
	v := m.visit(t)
	v.get("/signin")
	v.press("Send me a link", "email", "jane@example.org")
	paths := m.paths(t, "jane@example.org", signInSubject)
	expect.Must(t, len(paths) == 2, "the message has the links %q", paths)
	var opened []string
	for _, path := range paths {
		v.use(path)
		opened = append(opened, v.at.text("account"))
	}
	slices.Sort(ids)
	slices.Sort(opened)
	expect.That(t, slices.Equal(ids, opened) && ids[0] != ids[1], "the links open %q, want %q", opened, ids)
}

func TestMailLimits(t *testing.T) {
	t.Parallel()
	m := serveMail(t)
	owner, _ := m.customer(t, "starter")
	m.own(t, owner, "jane@example.org")
	for i := range maxSignIns + 1 {
		v := m.visit(t)
		v.header.Set("X-Test-Client", "192.0.2.1/32")
		p := v.post("/signin/mail", "email", "jane@example.org")
		want := map[bool]int{true: 200, false: 429}[i < maxSignIns]
		expect.That(t, p.status == want, "request %d: status %d, want %d", i, p.status, want)
	}
	for range maxMailsTo - 1 { // one confirmed the address
		m.paths(t, "jane@example.org", signInSubject)
	}
	// If more were sent, one of them would come before this one.
	m.pass(signInsWindow)
	owner.get(accountPath)
	owner.press("Send a link", "email", "other@example.org")
	link := m.paths(t, "other@example.org", confirmSubject)[0]
	m.pass(signin.LinkLife)
	owner.get(link)
	owner.press("Confirm the address").is(410, "has expired")

	for _, test := range []struct{ address, problem string }{
		{"", "The address is empty."}, {"jane", "The address has no"}, {"jane@", "The address has no domain"},
		{"jane@example.org, john@example.org", "The address"}, {"Jane <jane@example.org>", "The address"},
		{"jane@example.org\r\nBcc: x@example.org", "The address"},
		{strings.Repeat("x", 300) + "@example.org", "The address"},
	} {
		v := m.visit(t)
		v.header.Set("X-Test-Client", "192.0.2.7/32")
		v.post("/signin/mail", "email", test.address).is(400, test.problem)
	}
}

// testNoMail checks that without a mail server no page offers e-mail addresses.
func testNoMail(t *testing.T, s *site) {
	v, _ := s.customer(t, "free")
	for path, body := range map[string]string{"/signin/mail": "email", accountPath + "/address": "email",
		accountPath + "/address/confirm": "token"} {
		p := v.post(path, "csrf", v.at.token(), body, "jane@example.org")
		expect.That(t, p.status == 404 || p.status == 405, "%s: status %d", path, p.status)
	}
	if v.get(accountPath); strings.Contains(v.at.body, `type="email"`) {
		t.Error("the account page asks for an address")
	}
	w := s.visit(t)
	expect.That(t, !strings.Contains(w.get("/signin").body, `type="email"`), "the sign-in page asks for an address")
	_, err := New(Config{Mail: &mail.Sender{}})
	expect.That(t, err != nil, "New accepts mail without a public URL")
}
