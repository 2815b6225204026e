-- The chains with events that are due.
SELECT p.chain FROM graph_progress AS p
WHERE EXISTS (SELECT 1 FROM webhook_events AS e
    WHERE e.chain = p.chain AND e.state = 'pending' AND e.next_attempt_at <= now())
ORDER BY p.chain
