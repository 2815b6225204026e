-- The given nodes that enough customers checked recently.
SELECT node FROM unnest(?nodes::bytea[]) AS n (node)
WHERE (
	SELECT count(*) FROM (
		SELECT 1 FROM graph_sightings AS g
		WHERE g.node = n.node AND account_id <> ?public AND last_seen > ?oldest LIMIT ?min_customers
	) AS s
) = ?min_customers
