-- Sets an account's vote on a node to the given label. Without one, the account's latest other report decides.
UPDATE graph_sightings SET label = coalesce(?label, (
    SELECT label FROM feedback WHERE account_id = ?account AND pseudonym = ?pseudonym AND ref <> ?ref
    ORDER BY given_at DESC, ref DESC LIMIT 1
))
WHERE node = ?node AND account_id = ?account
