WITH old AS (
    SELECT ref FROM webhook_events
    WHERE state = 'failed' AND sealed_payload IS NOT NULL AND settled_at <= now() - ?age * interval '1 second'
    ORDER BY settled_at DESC LIMIT ?limit FOR UPDATE SKIP LOCKED)
UPDATE webhook_events AS e SET sealed_payload = NULL FROM old WHERE old.ref = e.ref
