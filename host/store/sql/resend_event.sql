UPDATE webhook_events AS e SET state = 'pending', tries = 0, next_attempt_at = now(), settled_at = NULL
WHERE ref = ?ref AND (?account = '' OR account_id = ?account) AND state = 'failed' AND sealed_payload IS NOT NULL
    AND EXISTS (SELECT FROM webhook_endpoints AS w WHERE w.account_id = e.account_id AND w.disabled_at IS NULL)
