-- The keys of one account, or of all accounts if ?account is empty, with their limits, their plan and this month's use.
SELECT key.*, u.used_at AS last_used_at, a.plan, coalesce(q.used, 0) AS used,
    a.suspended_at IS NOT NULL AS suspended
FROM api_keys AS key
JOIN accounts AS a ON a.id = key.account_id
LEFT JOIN quota_usage AS q ON q.chain = a.chain AND q.account_id = a.id
    AND q.period = date_trunc('month', now() AT TIME ZONE 'UTC')::date
LEFT JOIN key_uses AS u ON u.chain = a.chain AND u.key_id = key.id
WHERE ?account = '' OR key.account_id = ?account
ORDER BY key.id DESC
