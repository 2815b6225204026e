WITH expired AS (
    SELECT e.ref, e.attempts, e.leased_until
    FROM webhook_events AS e JOIN webhook_endpoints AS w USING (account_id)
    WHERE e.state = 'pending' AND NOT starts_with(e.ref, ?test_prefix)
        AND w.disabled_at <= now() - ?lease * interval '2 microseconds'
        AND (e.leased_until IS NULL OR e.leased_until <= now())
    FOR UPDATE OF e SKIP LOCKED),
interrupted AS (
    INSERT INTO webhook_attempts (ref, number, started_at, error)
    SELECT ref, attempts, leased_until - ?lease * interval '1 microsecond', ?interrupted
    FROM expired WHERE leased_until IS NOT NULL
    ON CONFLICT DO NOTHING)
UPDATE webhook_events AS e
SET state = 'failed', next_attempt_at = NULL, leased_until = NULL, settled_at = now()
FROM expired WHERE expired.ref = e.ref
