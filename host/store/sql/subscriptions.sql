-- All subscriptions. Intervals are in nanoseconds.
SELECT s.name, s.source, s.kind, s.category, s.format, s.selected_column AS "column", s.country, s.licence,
	extract(epoch FROM s.every)::bigint * 1000000000 AS every, s.next_fetch_at, s.confirmed_at, s.failing_since,
	s.failures, s.error, s.held_entries AS held, coalesce(f.entries, 0) AS entries, f.fresh_until, f.expires_at
FROM feed_subscriptions AS s LEFT JOIN feeds AS f USING (name) ORDER BY s.name
