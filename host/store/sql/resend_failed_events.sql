UPDATE webhook_events AS e SET state = 'pending', tries = 0, next_attempt_at = now(), settled_at = NULL
WHERE state = 'failed' AND sealed_payload IS NOT NULL
    AND EXISTS (SELECT FROM webhook_endpoints AS w WHERE w.account_id = e.account_id AND w.disabled_at IS NULL)
    AND ref IN (
        SELECT ref FROM webhook_events
        WHERE account_id = ?account AND state = 'failed' AND sealed_payload IS NOT NULL
            AND settled_at BETWEEN ?since AND ?until
        ORDER BY sequence LIMIT ?limit)
