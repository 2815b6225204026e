UPDATE webhook_endpoints
SET url = ?url, failing_since = NULL, failed_at = NULL, disabled_at = NULL, disabled_reason = NULL
WHERE account_id = ?account AND url <> ?url
