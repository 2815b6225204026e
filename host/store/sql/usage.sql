-- An account's use of a month's quota, this month's if none is given, and a larger quota that was paid for in it.
SELECT m.month, coalesce(q.used, 0) AS used, coalesce(q.quota, 0) AS quota
FROM (SELECT coalesce(?month::date, date_trunc('month', now() AT TIME ZONE 'UTC')::date) AS month) AS m
LEFT JOIN accounts AS a ON a.id = ?account
LEFT JOIN quota_usage AS q ON q.chain = a.chain AND q.account_id = a.id AND q.period = m.month
