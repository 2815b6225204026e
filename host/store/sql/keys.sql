-- The keys of one account, or of all accounts if ?account is empty, with their plan and this month's use.
SELECT key.*, greatest(key.last_used_at, l.used_at) AS last_used_at, a.plan, coalesce(u.used, 0) AS used
FROM api_keys AS key
JOIN accounts AS a ON a.id = key.account_id
LEFT JOIN quota_usage AS u ON u.chain = a.chain AND u.account_id = a.id
    AND u.period = date_trunc('month', now() AT TIME ZONE 'UTC')::date
LEFT JOIN key_uses AS l ON l.chain = a.chain AND l.key_id = key.id
WHERE ?account = '' OR key.account_id = ?account
ORDER BY key.id DESC
