-- Accounts' observations of entities, by pairs of a node and an account.
SELECT g.node, g.account_id, g.checks, g.blocked, g.label, g.first_seen, g.last_seen
FROM unnest(?nodes::bytea[], ?accounts::text[]) AS p (node, account_id)
JOIN graph_sightings AS g ON g.node = p.node AND g.account_id = p.account_id
WHERE g.node = ANY (?distinct::bytea[]) AND g.kind IN ('domain', 'email', 'phone', 'iban')
