UPDATE webhook_events
SET state = 'failed', next_attempt_at = NULL, leased_until = NULL, settled_at = now()
WHERE chain = ?chain AND state = 'pending' AND ref = ANY (ARRAY(
    SELECT e.ref FROM webhook_events AS e JOIN webhook_endpoints AS w USING (account_id)
    WHERE e.chain = ?chain AND e.state = 'pending' AND NOT starts_with(e.ref, ?test_prefix)
        AND w.disabled_at <= now() - ?lease * interval '2 microseconds'
        AND (e.leased_until IS NULL OR e.leased_until <= now())
    FOR UPDATE OF e SKIP LOCKED))
