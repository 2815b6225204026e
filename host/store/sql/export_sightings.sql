-- An account's contribution to a node of the reputation graph.
SELECT checks, blocked, reviewed, first_seen, last_seen,
    (SELECT count(*) FROM graph_links AS l WHERE (l.low = ?node OR l.high = ?node) AND l.account_id = ?account) AS links
FROM graph_sightings
WHERE node = ?node AND account_id = ?account
