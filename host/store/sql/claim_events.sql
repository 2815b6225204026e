-- pending lists the accounts with pending events by skipping from one account to the next in the index, so the cost
-- depends on the number of such accounts, not on the length of their queues.
WITH RECURSIVE pending (account_id) AS (
    (SELECT account_id FROM webhook_events WHERE state = 'pending' ORDER BY account_id LIMIT 1)
    UNION ALL
    SELECT (SELECT e.account_id FROM webhook_events AS e
        WHERE e.state = 'pending' AND e.account_id > pending.account_id ORDER BY e.account_id LIMIT 1)
    FROM pending WHERE pending.account_id IS NOT NULL),
accounts AS (
    SELECT account_id FROM pending WHERE NOT ?restricted AND account_id NOT IN (?except)
    UNION ALL
    SELECT account_id FROM webhook_endpoints WHERE ?restricted AND account_id IN (?only)),
ranked AS (
    SELECT due.ref, due.next_attempt_at,
        row_number() OVER (PARTITION BY a.account_id ORDER BY due.next_attempt_at, due.ref) AS rank
    FROM accounts AS a JOIN webhook_endpoints AS w USING (account_id) CROSS JOIN LATERAL (
        SELECT e.ref, e.next_attempt_at FROM webhook_events AS e
        WHERE e.state = 'pending' AND e.account_id = a.account_id AND e.next_attempt_at <= now()
            AND (w.disabled_at IS NULL OR starts_with(e.ref, ?test_prefix))
        ORDER BY e.next_attempt_at, e.ref LIMIT ?max_per_account) AS due),
claimed AS (
    SELECT e.ref, e.next_attempt_at AS due_at, e.leased_until, e.attempts, w.url, w.sealed_secret
    FROM (SELECT ref FROM ranked ORDER BY rank, next_attempt_at LIMIT ?max_events) AS r
    JOIN webhook_events AS e USING (ref) JOIN webhook_endpoints AS w USING (account_id)
    WHERE e.state = 'pending' AND e.next_attempt_at <= now()
    FOR UPDATE OF e SKIP LOCKED),
-- An expired lease means that the host of the previous attempt stopped during it.
interrupted AS (
    INSERT INTO webhook_attempts (ref, number, started_at, error)
    SELECT ref, attempts, leased_until - ?lease * interval '1 microsecond', ?interrupted
    FROM claimed WHERE leased_until IS NOT NULL
    ON CONFLICT DO NOTHING)
UPDATE webhook_events AS e
SET attempts = e.attempts + 1,
    leased_until = now() + ?lease * interval '1 microsecond',
    next_attempt_at = now() + ?lease * interval '1 microsecond'
FROM claimed WHERE claimed.ref = e.ref
RETURNING e.ref, e.account_id, e.event, e.attempts, e.sequence, e.sealed_payload, claimed.url, claimed.sealed_secret,
    (1e6 * extract(epoch FROM now() - claimed.due_at))::bigint AS late_micros,
    (SELECT coalesce(string_agg(encode(o.sealed_secret, 'hex'), ' ' ORDER BY o.replaced_at DESC), '')
        FROM webhook_old_secrets AS o WHERE o.account_id = e.account_id AND o.ends_at > now()) AS old_secrets
