-- A page of a subject's checks in chain order, each with its webhook event, feedback and review.
SELECT r.ref, r.recorded_at, r.type, r.score, r.verdict, r.key_id,
    e.event, e.state, e.sequence, e.attempts, e.occurred_at, e.next_attempt_at, e.settled_at, e.sealed_payload,
    a.number, a.sealed_exchange,
    f.label, f.sealed_note, f.given_at, v.state AS review, v.sealed_reason AS review_reason,
    v.asked_at AS review_asked_at, v.taken_at AS review_taken_at, v.settled_at AS review_settled_at,
    v.sealed_finding AS review_finding
FROM (
    SELECT * FROM ?records AS found
    WHERE account_id = ?account AND kind = ?kind AND seq > ?after
    ORDER BY seq
    LIMIT ?limit) AS r
LEFT JOIN webhook_events AS e ON e.chain = ?chain AND e.ref = r.ref AND e.account_id = r.account_id
LEFT JOIN LATERAL (
    SELECT w.number, w.sealed_exchange FROM webhook_attempts AS w
    WHERE w.chain = ?chain AND w.ref = e.ref AND w.sealed_exchange IS NOT NULL
    ORDER BY w.number DESC LIMIT 1) AS a ON true
LEFT JOIN feedback AS f ON f.chain = ?chain AND f.seq = r.seq
LEFT JOIN reviews AS v ON v.chain = ?chain AND v.seq = r.seq
ORDER BY r.seq
