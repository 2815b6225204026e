-- The keys of one account, or of all accounts if ?account is empty, with their plan and this month's use.
SELECT key.*, a.plan, coalesce(u.used, 0) AS used
FROM api_keys AS key
JOIN accounts AS a ON a.id = key.account_id
LEFT JOIN quota_usage AS u ON u.account_id = a.id AND u.period = ?month
WHERE ?account = '' OR key.account_id = ?account
ORDER BY key.id DESC
