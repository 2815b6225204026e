-- The subjects that enough customers checked recently, or with a parent that enough customers checked and that is not
-- a hub.
WITH subjects AS (
	SELECT subject, node FROM unnest(?subjects::bytea[]) WITH ORDINALITY AS s (node, subject)
),
parents AS (
	SELECT subject, node FROM unnest(?parent_subjects::bigint[], ?parents::bytea[]) AS p (subject, node)
)
SELECT subject FROM subjects AS n
WHERE (
	SELECT count(*) FROM (
		SELECT 1 FROM graph_sightings AS g
		WHERE g.node = n.node AND account_id <> ?public AND last_seen > ?oldest LIMIT ?min_customers
	) AS s
) = ?min_customers
UNION
SELECT subject FROM parents AS n
WHERE (
	SELECT count(*) FROM (
		SELECT 1 FROM graph_sightings AS g
		WHERE g.node = n.node AND account_id <> ?public AND last_seen > ?oldest LIMIT ?min_customers
	) AS s
) = ?min_customers AND (
	SELECT count(*) FROM (
		(SELECT 1 FROM graph_links WHERE low = n.node AND account_id <> ?public AND last_seen > ?oldest
			LIMIT ?max_links + 1)
		UNION ALL
		(SELECT 1 FROM graph_links WHERE high = n.node AND account_id <> ?public AND last_seen > ?oldest
			LIMIT ?max_links + 1)
	) AS l
) <= ?max_links
ORDER BY subject
