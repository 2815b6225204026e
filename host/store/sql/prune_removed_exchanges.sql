-- Stored requests and responses are deleted with the endpoint.
UPDATE webhook_attempts SET sealed_exchange = NULL
WHERE chain = ?chain AND (ref, number) IN (
    SELECT a.ref, a.number FROM webhook_attempts AS a
    JOIN webhook_events AS e ON e.chain = ?chain AND e.ref = a.ref
    WHERE a.chain = ?chain AND a.sealed_exchange IS NOT NULL
        AND NOT EXISTS (SELECT 1 FROM webhook_endpoints AS w WHERE w.account_id = e.account_id)
    LIMIT ?limit)
