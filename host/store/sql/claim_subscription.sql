-- Claims the named subscription, or the next due one. Intervals are in nanoseconds.
UPDATE feed_subscriptions AS s SET leased_until = ?until
WHERE name = (
	SELECT name FROM feed_subscriptions
	WHERE (name = ?name OR ?name = '' AND next_fetch_at <= ?now) AND (leased_until IS NULL OR leased_until <= ?now)
	ORDER BY next_fetch_at LIMIT 1 FOR UPDATE SKIP LOCKED)
RETURNING name, sealed_url, source, kind, category, format, selected_column AS "column", country, licence,
	extract(epoch FROM every)::bigint * 1000000000 AS every,
	extract(epoch FROM fresh_for)::bigint * 1000000000 AS fresh_for,
	extract(epoch FROM expires_after)::bigint * 1000000000 AS expires_after,
	failures, etag, last_modified, next_fetch_at
