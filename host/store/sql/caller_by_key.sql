-- A key with its limits and its account's plan, by the key's hash.
SELECT k.id, k.account_id, k.state, k.expires_at, a.plan, a.quota, k.scopes, k.networks, k.test,
    a.suspended_at IS NOT NULL AS suspended
FROM api_keys AS k
JOIN accounts AS a ON a.id = k.account_id
WHERE k.hash = ?hash
