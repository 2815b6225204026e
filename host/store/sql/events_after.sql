SELECT sequence, ref, account_id, event AS name, type, score, occurred_at, state, attempts, next_attempt_at, settled_at,
    sealed_payload IS NOT NULL AS payload_held, sealed_payload
FROM webhook_events
WHERE account_id = ?account AND sequence > ?after
ORDER BY sequence
LIMIT ?limit
