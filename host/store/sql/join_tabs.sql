-- Remembers the other checkouts that a new customer's browser has open.
INSERT INTO billing_tabs (checkout_id, earlier, created_at)
SELECT ?id, c.id, ?at::timestamptz FROM billing_checkouts AS c
WHERE c.session IN (?sessions) AND NOT c.upgrade AND c.state <> 'claimed' AND c.created_at > ?since
ON CONFLICT DO NOTHING
