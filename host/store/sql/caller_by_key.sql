-- A key with its limits and its account's plan, by the key's hash.
SELECT k.id, k.account_id, k.state, k.expires_at, a.plan, a.quota, l.scopes, l.networks, coalesce(l.test, false) AS test,
    a.suspended_at IS NOT NULL AS suspended
FROM api_keys AS k
JOIN accounts AS a ON a.id = k.account_id
LEFT JOIN key_limits AS l ON l.key_id = k.id
WHERE k.hash = ?hash
