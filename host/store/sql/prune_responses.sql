WITH old AS (
    SELECT ref, number FROM webhook_attempts
    WHERE sealed_answer IS NOT NULL AND started_at <= now() - ?age * interval '1 second'
    LIMIT ?limit FOR UPDATE SKIP LOCKED)
UPDATE webhook_attempts AS t SET sealed_answer = NULL FROM old WHERE old.ref = t.ref AND old.number = t.number
