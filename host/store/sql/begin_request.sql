-- Starts a background request, or returns the one that is running.
INSERT INTO subject_requests AS q (chain, id, account_id, key_id, kind, state, subject, sealed, total, since,
    lease_until, created_at)
SELECT h.chain, ?id, ?account, ?key, ?kind, 'running', ?subject, ?sealed, ?total, h.seq, now(), ?now
FROM audit_heads AS h WHERE h.chain = ?chain
ON CONFLICT (chain, account_id, kind, subject) WHERE state = 'running' DO UPDATE SET key_id = q.key_id
RETURNING q.id
