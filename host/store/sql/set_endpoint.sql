INSERT INTO webhook_endpoints (account_id, url, sealed_secret) VALUES (?account, ?url, ?sealed_secret)
ON CONFLICT (account_id) DO UPDATE
SET url = EXCLUDED.url, sealed_secret = EXCLUDED.sealed_secret, created_at = EXCLUDED.created_at,
    failing_since = NULL, failed_at = NULL, disabled_at = NULL, disabled_reason = NULL
