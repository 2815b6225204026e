SELECT e.node, f.name, f.kind, coalesce(nullif(e.category, ''), f.category) AS category, e.page, e.first_seen
FROM feed_entries AS e JOIN feeds AS f ON f.id = e.feed_id
WHERE e.node IN (?nodes) AND (f.expires_at IS NULL OR f.expires_at > ?now)
ORDER BY f.name
