-- The events that fail_events_of_disabled.sql will fail although an attempt was begun.
SELECT e.ref FROM webhook_events AS e JOIN webhook_endpoints AS w USING (account_id)
WHERE e.chain = ?chain AND e.state = 'pending' AND NOT starts_with(e.ref, ?test_prefix)
    AND w.disabled_at <= now() - ?lease * interval '2 microseconds' AND e.leased_until <= now()
