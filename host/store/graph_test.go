package store

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"assay/host/audit"
	"assay/host/check"
	"assay/host/entity"
)

// node returns the hash of a node in hexadecimal.
func node(kind, value string) string {
	return fmt.Sprintf("%x", audit.Pseudonym(testRing.Graph, nil, kind, value))
}

func sightingOf(t *testing.T, s *Store, account, kind, value string) string {
	t.Helper()
	return graphRow(t, s, `SELECT format('%s: %s checks, %s blocked, %s reviewed, %s to %s',
			kind, checks, blocked, reviewed, to_char(first_seen, 'HH24:MI'), to_char(last_seen, 'HH24:MI'))
		FROM graph_sightings WHERE encode(node, 'hex') = ? AND account_id = ?`, node(kind, value), account)
}

// linkOf returns how often two nodes were linked, and when last.
func linkOf(t *testing.T, s *Store, account, a, b string) string {
	t.Helper()
	return graphRow(t, s, `SELECT format('%s, %s', checks, to_char(last_seen, 'HH24:MI')) FROM graph_edges
		WHERE encode(node, 'hex') = ? AND encode(other, 'hex') = ? AND account_id = ?`, a, b, account)
}

// graphRow returns the only row of a query, or the number of rows.
func graphRow(t *testing.T, s *Store, query string, args ...any) string {
	t.Helper()
	var rows []string
	noError(t, s.db.NewRaw(query, args...).Scan(t.Context(), &rows))
	if len(rows) != 1 {
		return fmt.Sprintf("%d rows", len(rows))
	}
	return rows[0]
}

// Sightings add up within a batch and across batches, separately for each account.
func TestSightingsAddUp(t *testing.T) {
	t.Parallel()
	for name, together := range map[string]bool{"in one batch": true, "in batches of one": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newStore(t, nil)
			var sizes sizes
			l := ledgerOn(t, s, LedgerConfig{OnBatch: sizes.observe})
			mine, theirs := newCaller(t, s, plan(t, "pro", 100)), newCaller(t, s, plan(t, "pro", 100))
			email := parse(t, entity.Email, "jane@mail.example.co.uk")
			domain := parse(t, entity.Domain, "shop.example.co.uk")
			phone := parse(t, entity.Phone, "+4915123456789")
			minute := func(n int) time.Time { return noon.Add(time.Duration(n) * time.Minute) }
			blocked := at(decided(mine, email, check.Block), minute(5))
			blocked.Linked = []entity.Entity{domain, phone}
			twice := at(decided(theirs, phone, check.Allow), minute(4))
			twice.Linked = []entity.Entity{phone}
			records := []check.Record{
				blocked,
				at(decided(mine, email, check.Review), minute(9)),
				at(decided(mine, email, check.Allow), minute(2)), // recorded out of order
				at(decided(mine, domain, check.Allow), minute(3)),
				at(decided(theirs, email, check.Block), minute(4)),
				twice,
			}
			if together {
				noError(t, errors.Join(inOneBatch(t, s.url, l, s.PublicCaller(), records)...))
				sizes.want(t, 1, len(records))
			} else {
				for _, r := range records {
					noError(t, l.Append(t.Context(), r))
				}
			}
			noError(t, s.CatchUp(t.Context()))
			sightings := map[string]string{}
			for _, n := range []entity.Parent{
				{Kind: "email", Value: email.Value}, {Kind: "maildomain", Value: "mail.example.co.uk"},
				{Kind: "domain", Value: domain.Value},
				{Kind: "registrable", Value: "example.co.uk"}, {Kind: "phone", Value: phone.Value},
				{Kind: "range", Value: "4915123"},
			} {
				sightings[n.Kind] = sightingOf(t, s, mine.Account, n.Kind, n.Value)
			}
			want := map[string]string{
				"email":       "email: 3 checks, 1 blocked, 1 reviewed, 12:05 to 12:09",
				"maildomain":  "maildomain: 3 checks, 0 blocked, 0 reviewed, 12:05 to 12:09",
				"domain":      "domain: 2 checks, 0 blocked, 0 reviewed, 12:05 to 12:05",
				"registrable": "registrable: 5 checks, 0 blocked, 0 reviewed, 12:05 to 12:09",
				"phone":       "phone: 1 checks, 0 blocked, 0 reviewed, 12:05 to 12:05",
				"range":       "range: 1 checks, 0 blocked, 0 reviewed, 12:05 to 12:05",
			}
			noDiff(t, "sightings", want, sightings)
			expect(t, "another account's sighting", sightingOf(t, s, theirs.Account, "email",
				email.Value), "email: 1 checks, 1 blocked, 0 reviewed, 12:04 to 12:04")
			maildomain := node("maildomain", "mail.example.co.uk")
			e, d, p := node("email", email.Value), node("domain", domain.Value), node("phone", phone.Value)
			links := map[string]string{
				"email and mail domain":         linkOf(t, s, mine.Account, e, maildomain),
				"email and registrable domain":  linkOf(t, s, mine.Account, e, node("registrable", "example.co.uk")),
				"email and the domain with it":  linkOf(t, s, mine.Account, e, d),
				"email and the phone with it":   linkOf(t, s, mine.Account, e, p),
				"an entity and itself":          linkOf(t, s, theirs.Account, p, p),
				"domain and registrable domain": linkOf(t, s, mine.Account, d, node("registrable", "example.co.uk")),
				"phone and its range":           linkOf(t, s, mine.Account, p, node("range", "4915123")),
				"domain and phone, both linked": linkOf(t, s, mine.Account, d, p),
				"another account's":             linkOf(t, s, theirs.Account, e, maildomain),
			}
			wantLinks := map[string]string{
				"email and mail domain": "3, 12:09", "email and registrable domain": "3, 12:09",
				"email and the domain with it": "1, 12:05", "email and the phone with it": "1, 12:05",
				"domain and registrable domain": "2, 12:05", "phone and its range": "1, 12:05",
				"domain and phone, both linked": "0 rows", "an entity and itself": "0 rows",
				"another account's": "1, 12:04",
			}
			noDiff(t, "links", wantLinks, links)
			verifyLedger(t, s)
		})
	}
}
