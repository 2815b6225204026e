WITH old AS (
    SELECT ref FROM webhook_events
    WHERE settled_at <= now() - ?age * interval '1 second'
    LIMIT ?limit FOR UPDATE SKIP LOCKED)
DELETE FROM webhook_events AS e USING old WHERE old.ref = e.ref
