-- The endpoint of an account, or all endpoints if ?account is empty, with the number of their events in each state.
SELECT w.account_id, w.url, w.created_at, w.disabled_at, w.disabled_reason, w.failing_since,
    CASE WHEN w.disabled_at IS NULL THEN 'enabled' ELSE 'disabled' END AS state,
    (SELECT max(ends_at) FROM webhook_old_secrets AS o
        WHERE o.account_id = w.account_id AND ends_at > now()) AS old_secret_until,
    coalesce(n.pending, 0) AS pending, coalesce(n.delivered, 0) AS delivered, coalesce(n.failed, 0) AS failed,
    coalesce(n.resendable, 0) AS resendable
FROM webhook_endpoints AS w LEFT JOIN (
    SELECT account_id, count(*) FILTER (WHERE state = 'pending') AS pending,
        count(*) FILTER (WHERE state = 'delivered') AS delivered,
        count(*) FILTER (WHERE state = 'failed') AS failed,
        count(*) FILTER (WHERE state = 'failed' AND sealed_payload IS NOT NULL) AS resendable
    FROM webhook_events WHERE ?account = '' OR account_id = ?account GROUP BY account_id) AS n USING (account_id)
WHERE ?account = '' OR w.account_id = ?account
ORDER BY w.account_id
