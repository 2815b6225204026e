UPDATE webhook_events SET sealed_payload = NULL
WHERE chain = ?chain AND ref = ANY (ARRAY(
    SELECT ref FROM webhook_events
    WHERE chain = ?chain AND state = 'failed' AND sealed_payload IS NOT NULL
        AND settled_at <= now() - ?age * interval '1 second'
    ORDER BY settled_at DESC LIMIT ?limit FOR UPDATE SKIP LOCKED))
