-- The given nodes that are on a bad list in force and on no good list.
SELECT e.node
FROM feed_entries AS e JOIN feeds AS f ON f.id = e.feed_id
WHERE e.node = ANY (?nodes::bytea[]) AND (f.expires_at IS NULL OR f.expires_at > ?now)
GROUP BY e.node
HAVING bool_or(f.kind = 'bad' AND NOT e.page) AND NOT bool_or(f.kind = 'good')
