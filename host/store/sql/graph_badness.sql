-- Accounts' observations of entities, by pairs of a node and an account.
SELECT g.node, g.account, g.checks, g.blocked, g.label, g.first_seen, g.last_seen
FROM unnest(?nodes::bytea[], ?accounts::bigint[]) AS p (node, account)
JOIN graph_sightings AS g ON g.node = p.node AND g.account = p.account
WHERE g.node = ANY (?distinct::bytea[]) AND g.kind IN ('domain', 'email', 'phone', 'iban')
