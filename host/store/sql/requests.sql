-- An account's background requests, newest first. An erasure's progress is counted from its records in the chain, so
-- that it is right even after a host has stopped.
SELECT q.id, q.kind, q.state, q.total, q.created_at, q.settled_at,
    CASE q.kind WHEN 'erasure' THEN (
        SELECT coalesce(sum(e.checks), 0) FROM erasures AS e
        WHERE e.chain = ?chain AND e.subject = q.subject AND e.seq > q.since)
    ELSE q.done END AS done
FROM subject_requests AS q
WHERE q.chain = ?chain AND q.account_id = ?account AND (?id = '' OR q.id = ?id)
ORDER BY q.created_at DESC, q.id DESC
LIMIT 20
