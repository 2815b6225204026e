-- The account and the key of a privacy request.
SELECT a.id AS account_id, k.id AS key_id, CASE WHEN a.suspended_at IS NULL THEN k.state ELSE 'suspended' END AS state,
    k.expires_at, a.salt, a.chain
FROM api_keys AS k
JOIN accounts AS a ON a.id = k.account_id
WHERE k.id = ?key AND a.id = ?account
