package console

import (
	"context"
	"fmt"
	"log/slog"
	"net/netip"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/emersion/go-smtp"

	"assay/host/access/signin"
	"assay/host/check"
	"assay/host/customer/decision"
	"assay/host/entity"
	"assay/host/store/storetest"
	"assay/host/web/mail"
	"assay/host/web/mail/mailtest"
	"assay/registry/expect"
)

// mailSite is a console that sends mail to a server on loopback.
type mailSite struct {
	*site
	server *mailtest.Server
	log    string // its file
}

// publicURL begins the links in messages, whatever address a browser uses.
const publicURL = "http://assay.example"

// payers knows the address that the last account was paid with.
type payers struct {
	address string
	mu      sync.Mutex
	last    string // the customer
}

func (p *payers) CustomerAddress(context.Context, string) (string, error) { return p.address, nil }

func (p *payers) CustomersOf(_ context.Context, address string) ([]string, error) {
	if address != p.address {
		return nil, nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return []string{p.last}, nil
}

// pays makes an account that of the provider's customer.
func (m *mailSite) pays(t *testing.T, p *payers, v *visitor) {
	t.Helper()
	p.mu.Lock()
	defer p.mu.Unlock()
	p.last = "cus_" + account(t, m.site, v.token())
	expect.Value(storetest.Session(t, m.database).Exec(t.Context(),
		"UPDATE billing_subscriptions SET customer = $1 WHERE account_id = $2", p.last, p.last[4:]))(t)
}

func serveMail(t *testing.T) *mailSite { t.Helper(); return serveMailOf(t, nil) }

func serveMailOf(t *testing.T, provider *payers) *mailSite {
	t.Helper()
	m := &mailSite{server: mailtest.Start(t, mailtest.Plain), log: filepath.Join(t.TempDir(), "log")}
	log := expect.Value(os.Create(m.log))(t)
	t.Cleanup(func() { _ = log.Close() })
	sender := expect.Value(mail.New("smtp://" + m.server.Addr + "?from=assay@example.com"))(t)
	m.site = serve(t, func(c *Config) {
		c.Mail, c.URL, c.Logger = sender, publicURL, slog.New(slog.NewTextHandler(log, nil))
		if provider != nil {
			c.Customers = provider
		}
	})
	storetest.Background(t, m.Run)
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
	noticeSubject  = "Your Assay account was changed"
	recoverSubject = "Recover your Assay account"
)

// own makes an address that of a customer's account.
func (m *mailSite) own(t *testing.T, v *visitor, address string) {
	t.Helper()
	v.submit(accountPath, "Send a link", "email", " "+address+" ").is(200, "A link is on its way.")
	v.get(m.paths(t, address, confirmSubject)[0])
	v.press("Confirm the address").is(200, "Your e-mail address is confirmed.", "Your address is "+address)
}

func TestSignInByMail(t *testing.T) {
	t.Parallel()
	m := serveMail(t)
	owner, _ := m.customer(t, "starter")
	m.own(t, owner, "Jane@Example.org")

	v := m.visit(t)
	v.submit("/signin", "Send me a link", "email", "jane@example.ORG")
	v.is(200, "If jane@example.ORG is the confirmed address of an account's owner")
	answer := v.at.body
	link := m.paths(t, "Jane@Example.org", signInSubject)[0] // to the confirmed address
	v.use(link).is(200, "Your address is Jane@Example.org")
	w := m.visit(t)
	w.use(link).is(410, "This link was used")

	// An unknown address gets the same answer, and no message. Neither does a link that confirms an address sign in.
	w.submit("/signin", "Send me a link", "email", "jane@example.NET")
	expect.Equal(t, "the answer to an unknown address", strings.ReplaceAll(w.at.body, ".NET", ".ORG"), answer)
	owner.submit(accountPath, "Send a link", "email", "john@example.org")
	confirm := m.paths(t, "john@example.org", confirmSubject)[0]
	w.get("/signin")
	w.post("/signin/link", "token", confirm[strings.LastIndex(confirm, "/")+1:]).is(410, "This link was used")

	// Only the account's own sessions confirm an address, and opening the page changes nothing.
	stranger, _ := m.customer(t, "starter")
	stranger.submit(confirm, "Confirm the address").is(410, "belongs to another account")
	owner.get(confirm)
	owner.get(accountPath).is(200, "Your address is Jane@Example.org")

	m.clock.Add(signInsWindow)
	// The address before is told, and no longer signs in, even by a link that it has.
	w.submit("/signin", "Send me a link", "email", "jane@example.org")
	late := m.paths(t, "Jane@Example.org", signInSubject)[0]
	owner.submit(confirm, "Confirm the address").is(200, "Your address is john@example.org")
	m.paths(t, "Jane@Example.org", noticeSubject)
	w.use(late).is(410, "This link was used")
	owner.press("Remove the address").is(200, "Your e-mail address is removed.")
	m.paths(t, "john@example.org", noticeSubject)
	w.submit("/signin", "Send me a link", "email", "john@example.org")

	expect.Equal(t, "messages more sent", m.server.Received(), 0)
	m.own(t, stranger, "mike@Example.net")
	for entered, want := range map[string]int{"Mike@example.NET": 1, "mi\u212ae@example.net": 0} { // the Kelvin sign
		expect.Equal(t, "accounts of "+entered, len(expect.Value(m.store.OwnersOf(t.Context(), entered))(t)), want)
	}
	for _, table := range []string{"owner_addresses", "sign_in_links", "public_uses"} {
		if rows := m.rows(t, table); strings.Contains(rows, "example") || strings.Contains(rows, "jane") {
			t.Errorf("the table %s contains an address: %s", table, rows)
		}
	}
	expect.That(t, !strings.Contains(string(expect.Value(os.ReadFile(m.log))(t)), "@"), "the log contains an address")
}

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
	v.submit("/signin", "Send me a link", "email", "jane@example.org")
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

// TestMailLimits checks that strangers use up neither the messages of other networks nor those of the owner's browser.
func TestMailLimits(t *testing.T) {
	t.Parallel()
	m := serveMail(t)
	owner, _ := m.customer(t, "starter")
	m.own(t, owner, "jane@example.org")
	owner.press("Sign out")
	ask := func(v *visitor, client string) {
		v.header.Set("X-Test-Client", client)
		v.post("/signin/mail", "email", "jane@example.org").is(200)
	}
	stranger := m.visit(t)
	for i := range maxSignIns + 1 {
		stranger.header.Set("X-Test-Client", "192.0.2.1/32")
		p := stranger.post("/signin/mail", "email", "jane@example.org")
		want := map[bool]int{true: 200, false: 429}[i < maxSignIns]
		expect.That(t, p.status == want, "request %d: status %d, want %d", i, p.status, want)
	}
	for i := range byte(6) { // five other networks, and the same one again
		for range maxMailsFrom + 1 {
			ask(stranger, netip.PrefixFrom(netip.AddrFrom4([4]byte{198, 51, 100 + i%5, i}), 32).String())
		}
	}
	for range 6 * maxMailsFrom {
		m.paths(t, "jane@example.org", signInSubject)
	}
	ask(m.visit(t), "203.0.113.1/32") // the owner, at another place
	m.paths(t, "jane@example.org", signInSubject)
	for i := range byte(10) {
		ask(stranger, netip.PrefixFrom(netip.AddrFrom4([4]byte{10, 99, i, 1}), 32).String())
	}
	for range 10 {
		m.paths(t, "jane@example.org", signInSubject)
	}
	for i := range byte(5) {
		ask(stranger, netip.PrefixFrom(netip.AddrFrom4([4]byte{10, 98, i, 1}), 32).String())
	}
	m.paths(t, "jane@example.org", signInSubject) // the last of all networks
	ask(owner, "192.0.2.2/32")                    // in the network of the first stranger
	owner.use(m.paths(t, "jane@example.org", signInSubject)[0]).is(200, "Your address is jane@example.org")
	// If more were sent, one of them would come before this one.
	m.clock.Add(signInsWindow)
	owner.submit(accountPath, "Send a link", "email", "other@example.org")
	link := m.paths(t, "other@example.org", confirmSubject)[0]
	m.clock.Add(signin.LinkLife)
	owner.submit(link, "Confirm the address").is(410, "has expired")
	expect.That(t, !strings.Contains(string(expect.Value(os.ReadFile(m.log))(t)), "198.51."), "it has an address")

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

// An owner who lost the code recovers the account with the address that it is paid with, is told, and can refuse.
func TestRecovery(t *testing.T) {
	t.Parallel()
	provider := &payers{address: "billing@example.org"}
	m := serveMailOf(t, provider)
	owner, _ := m.customer(t, "starter")
	m.pays(t, provider, owner)

	// Whoever takes over an account without an address cannot hide it.
	m.own(t, owner, "thief@example.net")
	m.paths(t, "billing@example.org", noticeSubject)
	owner.press("Replace the code").is(200, "This is your new sign-in code.")
	m.paths(t, "thief@example.net", noticeSubject)

	verify := func() {
		t.Helper()
		m.clock.Add(mailWindow)
		v := m.visit(t)
		for i := range maxCustomerLookups + mailWorkers { // strangers of one network do not use up the look-ups
			v.header.Set("X-Test-Client", fmt.Sprintf("2001:db8:1:%x::/64", i))
			v.post("/signin/mail", "email", "jane@example.net").is(200)
		}
		v.header.Del("X-Test-Client")
		v.submit("/signin", "Send me a link", "email", "billing@example.org").is(200, "a link is on its way")
		link := m.paths(t, "billing@example.org", recoverSubject)[0]
		v.post("/signin/link", "token", link[len(recoverPath):]).is(410, "This link was used")
		v.submit(link, "Make it the recovery address").is(200, "In 72 hours")
		m.paths(t, "thief@example.net", noticeSubject)
		v.submit(link, "Make it the recovery address").is(410, "This link was used")
	}
	verify()
	owner = m.signIn(t, owner.at.text("code"))
	owner.get(accountPath).is(200, "billing@example.org, which the account is paid with", "If it is not yours")
	owner.press("Refuse it").is(200, "Your e-mail address is removed.")
	m.paths(t, "billing@example.org", noticeSubject)

	verify()
	for range 2 {
		m.visit(t).submit("/signin", "Send me a link", "email", "billing@example.org")
		m.paths(t, "billing@example.org", recoverSubject) // not a link that signs in
		m.clock.Add(signin.RecoveryWait / 2)
	}
	v := m.visit(t)
	v.submit("/signin", "Send me a link", "email", "billing@example.org")
	v.use(m.paths(t, "billing@example.org", signInSubject)[0]).is(200, "Remove the recovery address")
	v.press("Replace the code").is(200, "This is your new sign-in code.")
}

// TestReviewMail checks that the owner is told of a settled review once, unless the mail server refuses it for a day.
func TestReviewMail(t *testing.T) {
	t.Parallel()
	m := serveMail(t)
	owner, key := m.customer(t, "pro")
	m.own(t, owner, "jane@example.org")
	caller := expect.Value(m.store.Authenticate(t.Context(), key))(t)
	tell := func(age time.Duration) error {
		ref := m.record(t, key, entity.Email, "john@example.net", check.Block)
		expect.Value(m.store.AskReview(t.Context(), caller, ref, decision.Asking{Reason: "John says no"}))(t)
		expect.NoError(t, m.store.TakeReview(t.Context(), ref, "Ana"))
		expect.NoError(t, m.store.SettleReview(t.Context(), ref, decision.Settlement{Reviewer: "Ana",
			State: decision.Upheld, Finding: "It is a trap."}))
		m.clock.Add(age)
		m.server.Refuse(&smtp.SMTPError{Code: 550, Message: "no relaying"})
		return m.TellOwners(t.Context())
	}
	expect.Failure(t, tell(0), "a notice that is refused")
	for range 2 { // the second time there is nothing to tell
		expect.NoError(t, m.TellOwners(t.Context()))
	}
	owner.get(m.paths(t, "jane@example.org", "A review is settled")[0]).is(200, "It is a trap.")
	expect.NoError(t, tell(refusedFor)) // this one is not sent again
	expect.NoError(t, m.TellOwners(t.Context()))
	expect.Equal(t, "messages more sent", m.server.Received(), 0)
}

// testNoMail checks that without a mail server no page offers e-mail addresses.
func testNoMail(t *testing.T, s *site) {
	v, _ := s.customer(t, "free")
	for path, body := range map[string]string{"/signin/mail": "email", accountPath + "/address": "email",
		accountPath + "/address/confirm": "token"} {
		p := v.post(path, "csrf", v.at.token(), body, "jane@example.org")
		expect.That(t, p.status == 404 || p.status == 405, "%s: status %d", path, p.status)
	}
	v.get(accountPath)
	expect.That(t, !strings.Contains(v.at.body, `type="email"`), "the account page asks for an address")
	expect.That(t, !strings.Contains(s.visit(t).get("/signin").body, `type="email"`), "signing in asks for an address")
	expect.Failure(t, expect.ErrorOf(New(Config{Mail: &mail.Sender{}})), "New accepts mail without a public URL")
}
