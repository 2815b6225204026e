-- The pages of other open checkouts that a browser or an account has besides one.
SELECT page FROM related_checkouts(?id) WHERE id <> ?id AND state = 'open' AND page <> '' AND created_at > ?since
