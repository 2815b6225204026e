-- One page of a list's named entries, without those for single pages on hosts that are on a good list.
SELECT e.node, e.type, e.value, e.name, coalesce(nullif(e.category, ''), f.category) AS category
FROM feed_entries AS e JOIN feeds AS f ON f.id = e.feed_id
WHERE e.feed_id = ?list AND e.node > ?after AND e.name <> ''
	AND NOT (e.page AND EXISTS (
		SELECT FROM feed_entries AS o JOIN feeds AS g ON g.id = o.feed_id
		WHERE o.node = e.node AND g.kind = 'good' AND (g.expires_at IS NULL OR g.expires_at > ?now)))
ORDER BY e.node LIMIT ?limit
