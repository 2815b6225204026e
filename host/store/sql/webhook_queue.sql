-- How many events of a chain are due, at most max_events of each account, and for how many seconds the oldest has been.
-- See due_events.sql on the cost of pending.
WITH RECURSIVE pending (account_id) AS (
    (SELECT account_id FROM webhook_events
        WHERE chain = ?chain AND state = 'pending' ORDER BY account_id LIMIT 1)
    UNION ALL
    SELECT (SELECT e.account_id FROM webhook_events AS e
        WHERE e.chain = ?chain AND e.state = 'pending' AND e.account_id > pending.account_id
        ORDER BY e.account_id LIMIT 1)
    FROM pending WHERE pending.account_id IS NOT NULL)
SELECT count(*) AS due, coalesce(extract(epoch FROM now() - min(due.next_attempt_at)), 0)::float8 AS oldest
FROM pending AS a JOIN webhook_endpoints AS w USING (account_id) CROSS JOIN LATERAL (
    SELECT e.next_attempt_at FROM webhook_events AS e
    WHERE e.chain = ?chain AND e.state = 'pending' AND e.account_id = a.account_id AND e.next_attempt_at <= now()
        AND (w.disabled_at IS NULL OR starts_with(e.ref, ?test_prefix))
    ORDER BY e.next_attempt_at, e.ref LIMIT ?max_events) AS due
