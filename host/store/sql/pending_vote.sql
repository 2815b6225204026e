-- Begins the sighting of a check that is not in the reputation graph yet with the account's vote.
INSERT INTO graph_sightings AS g (node, account_id, kind, checks, blocked, reviewed, first_seen, last_seen, label)
SELECT ?node, ?account, ?type, 0, 0, 0, ?at, ?at, ?label
WHERE EXISTS (
    SELECT FROM graph_contributions WHERE chain = ?chain AND seq >= ?seq AND seq - items < ?seq
) AND NOT EXISTS (
    SELECT FROM graph_forgotten
    WHERE chain = ?chain AND account_id IN ('', ?account) AND node IN ('', ?node) AND up_to >= ?seq
)
ON CONFLICT (node, account_id) DO UPDATE SET label = EXCLUDED.label
