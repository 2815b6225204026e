-- Creates or replaces a subscription. It is due now; a fetch with the earlier settings loses its claim.
INSERT INTO feed_subscriptions AS s (name, sealed_url, source, kind, category, format, selected_column, country,
	licence, every, fresh_for, expires_after, next_fetch_at)
VALUES (?name, ?url, ?source, ?kind, ?category, ?format, ?column, ?country, ?licence,
	?every * interval '1 second', ?fresh * interval '1 second', ?expires * interval '1 second', ?now)
ON CONFLICT (name) DO UPDATE SET
	sealed_url = EXCLUDED.sealed_url, source = EXCLUDED.source, kind = EXCLUDED.kind, category = EXCLUDED.category,
	format = EXCLUDED.format, selected_column = EXCLUDED.selected_column, country = EXCLUDED.country,
	licence = EXCLUDED.licence, every = EXCLUDED.every, fresh_for = EXCLUDED.fresh_for,
	expires_after = EXCLUDED.expires_after, next_fetch_at = EXCLUDED.next_fetch_at, leased_until = NULL, etag = '',
	last_modified = '', failing_since = NULL, failures = 0, error = '', held_entries = NULL, accepted_entries = NULL
