-- A row of a ranked list has the prefix of the nodes instead of a node.
SELECT e.node, f.name, f.kind, coalesce(nullif(e.category, ''), f.category) AS category, e.page, e.first_seen,
	f.fresh_until IS NULL OR f.fresh_until > ?now AS fresh, NULL::bytea AS ranks
FROM feed_entries AS e JOIN feeds AS f ON f.id = e.feed_id
WHERE e.node IN (?nodes) AND (f.expires_at IS NULL OR f.expires_at > ?now)
UNION ALL
SELECT r.prefix, f.name, f.kind, '', false, f.imported_at, f.fresh_until IS NULL OR f.fresh_until > ?now, r.ranks
FROM feed_ranks AS r JOIN feeds AS f ON f.id = r.feed_id
WHERE r.prefix IN (?prefixes) AND (f.expires_at IS NULL OR f.expires_at > ?now)
ORDER BY name
