DELETE FROM webhook_events
WHERE chain = ?chain AND ref = ANY (ARRAY(
    SELECT ref FROM webhook_events
    WHERE chain = ?chain AND settled_at <= now() - ?age * interval '1 second'
    LIMIT ?limit FOR UPDATE SKIP LOCKED))
