-- The pages of other open checkouts that a browser or an account has besides one.
SELECT c.page FROM billing_checkouts AS m JOIN billing_checkouts AS c ON c.id <> m.id
WHERE m.id = ?id AND c.state = 'open' AND c.page <> '' AND c.created_at > ?since
    AND (c.account_id = m.account_id OR EXISTS (SELECT FROM billing_tabs AS t
        WHERE (t.checkout_id, t.earlier) IN ((c.id, m.id), (m.id, c.id))))
