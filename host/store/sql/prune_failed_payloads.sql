-- Resending an event does not keep its payload longer.
UPDATE webhook_events SET sealed_payload = NULL
WHERE chain = ?chain AND ref = ANY (ARRAY(
    SELECT ref FROM webhook_events
    WHERE chain = ?chain AND state = 'failed' AND sealed_payload IS NOT NULL
        AND created_at <= now() - ?age * interval '1 second'
    ORDER BY created_at LIMIT ?limit FOR UPDATE SKIP LOCKED))
