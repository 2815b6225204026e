-- A page of a subject's checks in chain order, each with its webhook event and feedback.
SELECT r.ref, r.at, r.type, r.score, r.verdict, r.key_id,
    e.event, e.state, e.sequence, e.attempts, e.occurred_at, e.next_attempt_at, e.settled_at, e.sealed_payload,
    f.label, f.sealed_note, f.given_at
FROM ?records AS r
LEFT JOIN webhook_events AS e ON e.chain = ?chain AND e.ref = r.ref AND e.account_id = r.account_id
LEFT JOIN feedback AS f ON f.chain = ?chain AND f.seq = r.seq
WHERE r.account_id = ?account AND r.kind = ?kind AND r.seq > ?after
ORDER BY r.seq
LIMIT ?limit
