-- The last record of a chain that may be pruned, if it comes after the newest anchor.
SELECT r.chain, r.seq, r.hash
FROM audit_records AS r
WHERE r.chain = ?chain
    AND r.recorded_at < ?before
    AND r.seq > (SELECT coalesce(max(seq), 0) FROM audit_anchors WHERE chain = ?chain)
    -- A chain is only cut from its beginning, so stop before the first record that must stay. A record dated in the
    -- future does not count, or it would block pruning until its time.
    AND r.seq < (
        SELECT coalesce(min(seq), 9223372036854775807)
        FROM audit_records
        WHERE chain = ?chain AND recorded_at >= ?before AND recorded_at < ?future
    )
    -- If the newest record is dated in the future, this host's clock may be slow. Then nothing is due.
    AND EXISTS (
        SELECT
        FROM audit_heads AS h
        JOIN audit_records AS l ON l.chain = h.chain AND l.seq = h.seq
        WHERE h.chain = ?chain AND l.recorded_at < ?future
    )
ORDER BY r.seq DESC
LIMIT 1
