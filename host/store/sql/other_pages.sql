-- The pages of other open checkouts that a browser or an account has besides one.
SELECT page FROM billing_checkouts
WHERE id IN (SELECT related_checkouts(?id)) AND id <> ?id AND state = 'open' AND page <> '' AND created_at > ?since
