-- A check with its webhook event, feedback and review, the record with which its chain's tree begins, or 0, and the
-- first checkpoint that covers its record. The reference names a time, and so the partition to look into.
SELECT r.chain, r.seq, r.recorded_at, r.kind, r.ref, r.account_id, r.key_id, r.type, r.pseudonym, r.nonce,
    r.score, r.verdict, r.revision, r.digest, r.leaf, r.hash, r.sealed_node,
    e.event, e.state, e.attempts, f.label, f.sealed_note, f.given_at, f.layers IS NOT NULL AS scored,
    v.state AS review, v.sealed_reason AS review_reason, v.asked_at AS review_asked_at, v.taken_at AS review_taken_at,
    v.settled_at AS review_settled_at, v.sealed_finding AS review_finding,
    coalesce(t.first_seq, 0) AS first, c.size, t.first_seq + c.size - 1 AS covered, c.note AS checkpoint, c.signed_at
FROM (
    SELECT * FROM audit_records
    WHERE chain = ?chain AND ref = ?ref AND recorded_at BETWEEN ?from AND ?until OFFSET 0) AS r
LEFT JOIN webhook_events AS e ON e.chain = ?chain AND e.ref = r.ref AND e.account_id = r.account_id
LEFT JOIN feedback AS f ON f.chain = ?chain AND f.seq = r.seq
LEFT JOIN reviews AS v ON v.chain = ?chain AND v.seq = r.seq
LEFT JOIN audit_trees AS t ON t.chain = ?chain
LEFT JOIN LATERAL (
    SELECT c.size, c.note, c.signed_at FROM audit_checkpoints AS c
    WHERE c.chain = ?chain AND t.first_seq <= r.seq AND c.size > r.seq - t.first_seq
    ORDER BY c.size LIMIT 1) AS c ON true
WHERE r.account_id = ?account AND r.kind = 'check'
    AND r.seq > (SELECT coalesce(max(seq), 0) FROM audit_anchors WHERE chain = ?chain) -- others were pruned, or added
