SELECT sequence, ref, account_id, event AS name, type, score, occurred_at, state, attempts, next_attempt_at, settled_at,
    sealed_payload IS NOT NULL AS payload_held
FROM webhook_events
WHERE account_id = ?account AND (?state = '' OR state = ?state) AND (?below = 0 OR sequence < ?below)
ORDER BY sequence DESC
LIMIT ?limit
