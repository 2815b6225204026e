SELECT w.account_id, w.url, w.created_at, w.disabled_at, w.disabled_reason, w.failing_since,
    CASE WHEN w.disabled_at IS NULL THEN 'enabled' ELSE 'disabled' END AS state,
    (SELECT max(ends_at) FROM webhook_old_secrets AS o
        WHERE o.account_id = w.account_id AND ends_at > now()) AS old_secret_until,
    n.*
FROM webhook_endpoints AS w CROSS JOIN LATERAL (
    SELECT count(*) FILTER (WHERE state = 'pending') AS pending,
        count(*) FILTER (WHERE state = 'delivered') AS delivered,
        count(*) FILTER (WHERE state = 'failed') AS failed
    FROM webhook_events AS e WHERE e.account_id = w.account_id) AS n
WHERE ?account = '' OR w.account_id = ?account
ORDER BY w.account_id
