WITH new (ref, account_id, event, type, score, occurred_at, sealed_payload, later) AS (?events),
numbered AS (
    INSERT INTO webhook_sequences AS s (account_id, last)
    SELECT account_id, count(*) FROM new GROUP BY account_id ORDER BY account_id
    ON CONFLICT (account_id) DO UPDATE SET last = s.last + EXCLUDED.last
    RETURNING account_id, last)
INSERT INTO webhook_events (ref, account_id, event, type, score, occurred_at, sealed_payload, sequence, state,
    next_attempt_at, settled_at)
SELECT ref, account_id, event, type, score, occurred_at, sealed_payload, last - later,
    CASE WHEN undeliverable THEN 'failed' ELSE 'pending' END,
    CASE WHEN NOT undeliverable THEN now() END,
    CASE WHEN undeliverable THEN now() END
FROM new JOIN numbered USING (account_id) CROSS JOIN LATERAL (
    SELECT NOT starts_with(new.ref, ?test_prefix) AND EXISTS (
        SELECT FROM webhook_endpoints AS w WHERE w.account_id = new.account_id AND w.disabled_at IS NOT NULL)
) AS disabled (undeliverable)
