UPDATE webhook_attempts SET sealed_exchange = NULL
WHERE chain = ?chain AND (ref, number) IN (
    SELECT ref, number FROM webhook_attempts
    WHERE chain = ?chain AND sealed_exchange IS NOT NULL AND started_at <= now() - ?age * interval '1 second'
    LIMIT ?limit FOR UPDATE SKIP LOCKED)
