UPDATE webhook_endpoints
SET failing_since = NULL, failed_at = NULL, disabled_at = NULL, disabled_reason = NULL, notice = NULL
WHERE account_id = ?account
