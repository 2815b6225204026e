-- An expired lease means that the host of the previous attempt stopped during it.
INSERT INTO webhook_attempts (chain, ref, number, started_at, error)
SELECT chain, ref, attempts, leased_until - ?lease * interval '1 microsecond', ?interrupted
FROM webhook_events
WHERE chain = ?chain AND ref IN (?refs) AND state = 'pending' AND leased_until <= now()
ON CONFLICT DO NOTHING
