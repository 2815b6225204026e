package console

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"assay/host/check"
	"assay/host/entity"
	"assay/host/store/storetest"
	"assay/host/web/mail"
	"assay/registry/expect"
)

// noMail sends no mail.
type noMail struct{}

func (noMail) Send(context.Context, mail.Message) error { return nil }

// refuse makes the database refuse all changes, but for limits on how often a client may try.
const refuse = `DO $$
DECLARE
	name regclass;
BEGIN
	CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RAISE ''refused''; END';
	FOR name IN SELECT oid FROM pg_class WHERE relnamespace = 'public'::regnamespace AND relkind IN ('r', 'p')
		AND relname <> 'rate_uses' LOOP
		EXECUTE format('CREATE TRIGGER refuse BEFORE INSERT OR UPDATE OR DELETE ON %s EXECUTE FUNCTION refuse()', name);
	END LOOP;
END $$`

// TestFailedWrites submits every form while the database refuses changes: no page says that something was done.
func TestFailedWrites(t *testing.T) {
	t.Parallel()
	refuses := &hooked{func(check.Request) error { return errors.New("not recorded") }}
	s := serve(t, func(c *Config) { c.Checker, c.Mail, c.URL = refuses, noMail{}, publicURL })
	v, key := s.customer(t, "starter")
	owner := account(t, s, v.token())
	const jane = "jane.doe@example.com"
	ref := s.record(t, key, entity.Email, jane, check.Block)
	override := []string{"action", "block", "kind", "domain", "value", "example.com", "reason", "x",
		"until", s.clock.Now().AddDate(0, 0, 1).Format(time.DateOnly)}
	v.submit("/dashboard/overrides", "Save", override...)
	v.submit(webhooksPath, "Save", "url", "https://example.com/")
	v.submit("/dashboard/keys", "Create key", "name", "second")
	buyer := s.visitLanding(t, "Subscribe to Pro")
	token := func(token string, err error) []string { return []string{"token", expect.Value(token, err)(t)} }
	forms := map[string][]string{
		"/try": {"domain", "example.com"}, "/dashboard/try": {"value", "example.com", "type", "domain"},
		"/subscribe": {"plan", "pro"}, TestCheckoutPath + ":id": card, "/checkout/reissue": nil,
		"/dashboard/plan": {"plan", "pro"}, "/dashboard/plan/cancel": nil,
		"/signin": {"code", v.code}, "/signin/mail": {"email", jane}, "/signout": nil,
		"/signin/link":                    token(s.store.NewLink(t.Context(), owner)),
		recoverPath:                       token(s.store.NewRecoveryLink(t.Context(), owner, jane)),
		"/dashboard/checks/:ref/feedback": {"label", "fraud"}, "/dashboard/checks/:ref/review": {"reason", "wrong"},
		"/dashboard/keys": {"name", "x", "scope", "check"}, "/dashboard/keys/:id/rotate": nil,
		"/dashboard/keys/:id/revoke":    nil,
		webhooksPath + "/secret/switch": nil, webhooksPath + "/test": nil, webhooksPath + "/enable": nil,
		webhooksPath: {"url", "https://example.org/"}, webhooksPath + "/remove": nil,
		webhooksPath + "/secret": nil,
		webhooksPath + "/resend": nil, webhooksPath + "/:ref/resend": nil,
		"/dashboard/overrides": override, "/dashboard/overrides/:id/remove": nil,
		"/dashboard/privacy/export": {"who", jane, "type", "email"},
		"/dashboard/privacy/erase":  {"who", jane, "type", "email", "sure", "yes"},
		accountPath + "/code":       nil, accountPath + "/sessions/end": nil, accountPath + "/sessions/:id/end": nil,
		accountPath + "/address": {"email", jane}, accountPath + "/address/remove": nil,
		accountPath + "/address/confirm": token(s.store.NewAddressLink(t.Context(), owner, jane)),
	}
	reads := []string{"/dashboard/checks", "/dashboard/checks/:ref/explain", "/dashboard/privacy",
		"/dashboard/privacy/download", "/dashboard/plan/payment"}
	ids := strings.NewReplacer(":ref", ref, TestCheckoutPath+":id", buyer.at.url.Path,
		"overrides/:id", "overrides/"+expect.Value(s.store.Overrides(t.Context(), owner))(t)[0].ID,
		":id", expect.Value(s.store.Keys(t.Context(), owner))(t)[0].ID)
	csrf := v.get(accountPath).token()
	storetest.Exec(t, storetest.Session(t, s.database), refuse)
	v.get("/dashboard").is(200, "This month")
	for _, route := range s.app.GetRoutes(true) {
		if route.Method != http.MethodPost || slices.Contains(reads, route.Path) {
			continue
		}
		fields, ok := forms[route.Path]
		expect.That(t, ok, "no form of %s is tested", route.Path)
		from := v
		if strings.HasPrefix(route.Path, TestCheckoutPath) {
			from = buyer
		}
		p := from.alone().post(ids.Replace(route.Path), append(fields, "csrf", csrf)...)
		expect.That(t, p.status >= 500, "POST %s: status %d: %s", route.Path, p.status, words(p.root))
	}
}
