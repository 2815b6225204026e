-- The open pages of a customer, if too many cards of the browser or the account were declined, or one card too often.
SELECT c.page FROM billing_checkouts AS c
WHERE c.customer = ?customer AND c.state = 'open' AND c.page <> '' AND c.created_at > ?open_since
    AND ?most <= greatest(
        (SELECT count(*) FROM billing_declines WHERE card = ?card AND card <> '' AND declined_at > ?since),
        (SELECT count(*) FROM billing_declines WHERE declined_at > ?since
            AND customer IN (SELECT customer FROM billing_checkouts WHERE id IN (SELECT related_checkouts(c.id)))))
