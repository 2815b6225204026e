-- Deletes a node's sightings and links, and reduces the sightings of its parents by what the links contributed. An
-- empty account selects those of all accounts. Linked entities keep their sightings: they were checked themselves.
WITH links AS (
	DELETE FROM graph_links WHERE (low = ?node OR high = ?node) AND (?account = '' OR account_id = ?account)
	RETURNING CASE WHEN low = ?node THEN high ELSE low END AS other, account_id, checks
), own AS (
	DELETE FROM graph_sightings WHERE node = ?node AND (?account = '' OR account_id = ?account) RETURNING node
), parents AS (
	SELECT g.node, g.account_id, g.checks - l.checks AS remaining FROM graph_sightings AS g
	JOIN links AS l ON l.other = g.node AND l.account_id = g.account_id
	WHERE g.kind NOT IN ('domain', 'email', 'phone', 'iban')
), deleted AS (
	DELETE FROM graph_sightings AS g USING parents AS p
	WHERE g.node = p.node AND g.account_id = p.account_id AND p.remaining <= 0
), reduced AS (
	UPDATE graph_sightings AS g SET checks = p.remaining FROM parents AS p
	WHERE g.node = p.node AND g.account_id = p.account_id AND p.remaining > 0
)
SELECT (SELECT count(*) FROM own), (SELECT count(*) FROM links)
