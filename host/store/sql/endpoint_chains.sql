-- The chains with accounts that have an endpoint.
SELECT DISTINCT a.chain
FROM webhook_endpoints AS w JOIN accounts AS a ON a.id = w.account_id
WHERE NOT ?restricted OR a.id IN (?only)
