-- The pages of the other open checkouts of the same browser or account.
SELECT page FROM billing_checkouts
WHERE id IN (SELECT related_checkouts(?id)) AND id <> ?id AND state = 'open' AND page <> '' AND created_at > ?since
