-- A session that has not expired, with the plan of its account and the key with which the dashboard acts: the newest
-- working key that is not a test key, preferably without limits and without expiry. It is empty if no key works.
SELECT s.id, s.account_id AS account, s.began_at, s.used_at, s.proved_at, s.browser, s.network,
    a.plan, a.quota, coalesce((
    SELECT k.id
    FROM api_keys AS k
    WHERE a.suspended_at IS NULL AND k.account_id = s.account_id AND k.state = 'valid'
        AND (k.expires_at IS NULL OR k.expires_at > ?now)
        AND NOT k.test
    ORDER BY (k.scopes IS NULL AND k.networks IS NULL AND k.lifetime IS NULL) DESC, k.expires_at DESC NULLS FIRST, k.id DESC
    LIMIT 1
), '') AS key_id,
    (SELECT w.disabled_at FROM webhook_endpoints AS w WHERE w.account_id = s.account_id) AS webhook_disabled_at,
    (SELECT o.usable_at FROM owner_addresses AS o
        WHERE o.account_id = s.account_id AND o.recovery AND o.usable_at > ?now) AS recovers_at
FROM sessions AS s
JOIN accounts AS a ON a.id = s.account_id
WHERE s.hash = ?hash AND s.expires_at > ?now
