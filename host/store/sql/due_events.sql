-- The due events of a chain, at most a few of each account. pending lists the accounts with pending events by skipping
-- from one account to the next in the index, so the cost depends on the number of such accounts, not on the length of
-- their queues.
WITH RECURSIVE pending (account_id) AS (
    (SELECT account_id FROM webhook_events
        WHERE chain = ?chain AND state = 'pending' ORDER BY account_id LIMIT 1)
    UNION ALL
    SELECT (SELECT e.account_id FROM webhook_events AS e
        WHERE e.chain = ?chain AND e.state = 'pending' AND e.account_id > pending.account_id
        ORDER BY e.account_id LIMIT 1)
    FROM pending WHERE pending.account_id IS NOT NULL),
accounts AS (
    SELECT account_id FROM pending WHERE NOT ?restricted AND account_id NOT IN (?except)
    UNION ALL
    SELECT account_id FROM webhook_endpoints WHERE ?restricted AND account_id IN (?only))
SELECT due.ref, due.next_attempt_at, due.leased_until IS NOT NULL AS interrupted,
    row_number() OVER (PARTITION BY a.account_id ORDER BY due.next_attempt_at, due.ref) AS rank
FROM accounts AS a JOIN webhook_endpoints AS w USING (account_id) CROSS JOIN LATERAL (
    SELECT e.ref, e.next_attempt_at, e.leased_until FROM webhook_events AS e
    WHERE e.chain = ?chain AND e.state = 'pending' AND e.account_id = a.account_id AND e.next_attempt_at <= now()
        AND (w.disabled_at IS NULL OR starts_with(e.ref, ?test_prefix))
    ORDER BY e.next_attempt_at, e.ref LIMIT ?max_per_account) AS due
ORDER BY rank, due.next_attempt_at LIMIT ?max_events
