-- Claims the given events that are still due.
UPDATE webhook_events AS e
SET attempts = e.attempts + 1,
    leased_until = now() + ?lease * interval '1 microsecond',
    next_attempt_at = now() + ?lease * interval '1 microsecond'
FROM (
    SELECT d.ref, w.url, w.sealed_secret, (1e6 * extract(epoch FROM now() - d.next_attempt_at))::bigint AS late_micros,
        (SELECT coalesce(string_agg(encode(o.sealed_secret, 'hex'), ' ' ORDER BY o.replaced_at DESC), '')
            FROM webhook_old_secrets AS o WHERE o.account_id = d.account_id AND o.ends_at > now()) AS old_secrets
    FROM webhook_events AS d JOIN webhook_endpoints AS w USING (account_id)
    WHERE d.chain = ?chain AND d.ref IN (?refs) AND d.state = 'pending' AND d.next_attempt_at <= now()
    FOR UPDATE OF d SKIP LOCKED) AS due
WHERE e.chain = ?chain AND e.ref = due.ref
RETURNING e.ref, e.account_id, e.event, e.attempts, e.sequence, e.sealed_payload, due.url, due.sealed_secret,
    due.late_micros, due.old_secrets
