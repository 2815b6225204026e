-- Takes what owners are to be told about their endpoints.
UPDATE webhook_endpoints AS w SET notice = NULL
FROM (SELECT account_id, notice FROM webhook_endpoints WHERE notice IS NOT NULL) AS n
WHERE w.account_id = n.account_id AND w.notice = n.notice
RETURNING w.account_id, n.notice = 'disabled' AS disabled
